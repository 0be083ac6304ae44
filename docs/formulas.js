// Settings of the script that sets the formulas. One that is wider than its paragraph scrolls by itself.
const markWide = () => {
  for (const formula of document.querySelectorAll("mjx-container")) {
    formula.classList.remove("wide");
    const box = formula.closest("p, li, td, dd, div.math, h1, h2, h3, h4");
    if (box && formula.scrollWidth > box.clientWidth) formula.classList.add("wide");
  }
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
