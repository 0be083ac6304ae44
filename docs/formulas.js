// Settings of the script that sets the formulas. One that is wider than its paragraph scrolls by itself.
const width = (element) => element.getBoundingClientRect().width;
const markWide = () => {
  const formulas = [...document.querySelectorAll("mjx-container")];
  for (const formula of formulas) formula.classList.remove("wide");
  const wide = formulas.filter((formula) => {
    const box = formula.closest("p, li, td, dd, div.math, h1, h2, h3, h4");
    return box && Math.max(width(formula), width(formula.firstElementChild)) > box.clientWidth;
  });
  for (const formula of wide) formula.classList.add("wide");
};
window.MathJax = {
  options: { enableMenu: false, processHtmlClass: "tex2jax_process|mathjax_process|math|output_area" },
  startup: {
    pageReady: () =>
      MathJax.startup.defaultPageReady().then(() => {
        markWide();
        addEventListener("resize", markWide);
        document.documentElement.dataset.formulas = "set";
      }),
  },
};
