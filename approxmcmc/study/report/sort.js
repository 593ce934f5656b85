// Sort a table by the column whose heading was pressed; blanks stay last. A second press turns the order round.
document.querySelectorAll("table.sortable").forEach(function (table) {
  var body = table.tBodies[0];
  var headings = Array.prototype.slice.call(table.tHead.rows[0].cells);
  function key(row, column) {
    var cell = row.cells[column];
    var raw = cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort;
    var number = Number(raw);
    return raw === "" ? null : Number.isNaN(number) ? raw : number;
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
  }
  headings.forEach(function (heading, column) {
    heading.tabIndex = 0;
    heading.title = "Sort by this column";
    heading.addEventListener("click", function () { sort(column); });
    heading.addEventListener("keydown", function (event) {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(column); }
    });
  });
});
