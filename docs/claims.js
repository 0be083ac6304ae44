// The table of claims: shows the rows that fit the choices, and keeps these in the address.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.claims-filter");
  if (!form) return;
  const rows = [...document.querySelectorAll("table.claims tbody tr")];
  const fields = [...form.elements].filter((field) => field.name);
  const show = () => {
    const wanted = fields.filter((field) => field.value).map((field) => [field.name, field.value]);
    const fits = (row) =>
      wanted.every(([name, value]) =>
        name === "words"
          ? row.textContent.toLowerCase().includes(value.toLowerCase())
          : row.dataset[name] === value,
      );
    for (const row of rows) row.hidden = !fits(row);
    form.querySelector("output").value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims`;
    const query = new URLSearchParams(wanted).toString();
    history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
  };
  const given = new URLSearchParams(location.search);
  for (const field of fields) if (given.has(field.name)) field.value = given.get(field.name);
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
});
