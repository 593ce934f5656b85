// Sort a table by the column whose heading was pressed; blanks stay last. A second press turns the order round.
// A long table can be filtered by words, and cut to the first row of each family in the order shown.
document.querySelectorAll("table.sortable").forEach(function (table) {
  var body = table.tBodies[0];
  var headings = Array.prototype.slice.call(table.tHead.rows[0].cells);
  function key(row, column) {
    var cell = row.cells[column];
    var raw = cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort;
    var number = Number(raw);
    return raw === "" ? null : Number.isNaN(number) ? raw : number;
  }
  var words = "", folded = false, told = null;
  function show() {
    var seen = {}, shown = 0;
    Array.prototype.slice.call(body.rows).forEach(function (row) {
      var text = row.textContent.toLowerCase();
      var wanted = words.split(/\s+/).every(function (word) { return text.indexOf(word) >= 0; });
      if (wanted && folded && row.dataset.family) {
        wanted = !seen[row.dataset.family];
        seen[row.dataset.family] = true;
      }
      row.hidden = !wanted;
      shown += wanted;
    });
    told.textContent = shown + " of " + body.rows.length + " rows";
  }
  function controls() {
    var bar = document.createElement("p"), search = document.createElement("input");
    bar.className = "controls";
    search.type = "search";
    search.placeholder = "Filter rows";
    search.setAttribute("aria-label", "Filter rows");
    search.addEventListener("input", function () { words = search.value.toLowerCase().trim(); show(); });
    bar.appendChild(search);
    if (body.querySelector("tr[data-family]")) {
      var label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      box.checked = folded = true;
      box.addEventListener("change", function () { folded = box.checked; show(); });
      label.appendChild(box);
      label.appendChild(document.createTextNode(" one row per family, the first in this order"));
      bar.appendChild(label);
    }
    told = document.createElement("span");
    bar.appendChild(told);
    table.parentNode.parentNode.insertBefore(bar, table.parentNode);
    show();
  }
  function sort(column) {
    var descending = headings[column].getAttribute("aria-sort") === "ascending";
    headings.forEach(function (heading) { heading.removeAttribute("aria-sort"); });
    headings[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    Array.prototype.slice.call(body.rows).map(function (row) {
      return { row: row, key: key(row, column) };
    }).sort(function (a, b) {
      if (a.key === null || b.key === null) { return (a.key === null) - (b.key === null); }
      var order = typeof a.key === typeof b.key ? (a.key > b.key) - (a.key < b.key)
        : typeof a.key === "number" ? -1 : 1;
      return descending ? -order : order;
    }).forEach(function (entry) { body.appendChild(entry.row); });
    if (told) { show(); }
  }
  if (body.rows.length > 12) { controls(); }
  headings.forEach(function (heading, column) {
    heading.tabIndex = 0;
    heading.title = "Sort by this column";
    heading.addEventListener("click", function () { sort(column); });
    heading.addEventListener("keydown", function (event) {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(column); }
    });
  });
});
