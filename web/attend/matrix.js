// A tensor drawn as a table: heat colours, hatched where hidden, shapes on its edges, one tab stop, arrow keys inside.
// Of a large tensor only a window and the corners are drawn.

// element("td", {className: "x"}, "text", child): text always goes in as text.
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

// A token as a reader should see it: line ends and an empty text made visible.
function tokenText(token) {
  const text = String(token).replace(/\r?\n/g, "↵").replace(/\t/g, "⇥");
  return text === "" ? "∅" : text;
}

// Up to kFullAxis rows and columns and kFullCells cells a matrix is drawn as it is. Otherwise an axis with more than
// kWholeAxis indices shows a window of kWindow of them and kCorner at each end.
const kFullAxis = 32;
const kFullCells = 512;
const kWholeAxis = 16;
const kWindow = 8;
const kCorner = 1;

// The indices 0 … count−1 that are drawn when the window begins at `start`; null stands for a gap.
function drawnIndices(count, start, all) {
  if (all || count <= kWholeAxis) return range(count);
  const wanted = range(count).filter((i) => i < kCorner || i >= count - kCorner || (i >= start && i < start + kWindow));
  return wanted.flatMap((i, at) => (at > 0 && i > wanted[at - 1] + 1 ? [null, i] : [i]));
}

const kSides = ["left-operand", "right-operand", "chosen"];

class Matrix {
  // `onSelect(matrix, row, column)` is called when a cell gets the focus, with its place in the tensor itself, whether it
  // is drawn transposed or not. A copy is drawn where another step takes the tensor; its own step draws it first.
  constructor(tensor, onSelect, caption, copy = false) {
    this.tensor = tensor;
    this.onSelect = onSelect;
    this.signed = !kShares.has(tensor.name) && tensor.kind !== "comparison";
    this.start = {row: 0, column: 0};
    this.current = {row: tensor.firstRow, column: tensor.firstColumn};
    this.marks = [];
    this.cells = new Map();
    this.everything =
      tensor.rows <= kFullAxis && tensor.columns <= kFullAxis && tensor.rows * tensor.columns <= kFullCells;
    this.box = element("div", {className: "scroll"});
    this.legend = element("div", {className: "legend"});
    this.sliders = element("div", {className: "sliders"});
    this.figure = element("figure", {className: "matrix"}, element("figcaption", {}, ...caption));
    this.figure.dataset[copy ? "copy" : "name"] = tensor.name;
    this.addBody();
  }
  addBody() {
    const {tensor} = this;
    if (!tensor.recorded()) {
      const text = `${tensor.shape.join(" × ")}: ${tensor.entry.omitted ?? "not recorded"}, too many to show`;
      this.figure.append(element("p", {className: "omitted"}, text));
      return;
    }
    if (tensor.rows === 0 || tensor.columns === 0) {
      this.figure.append(element("p", {className: "omitted"}, `${tensor.shape.join(" × ")}: empty`));
      return;
    }
    this.figure.append(this.box, this.sliders, this.legend);
    this.figure.addEventListener("keydown", (event) => this.onKey(event));
    this.figure.addEventListener("focusin", (event) => this.onFocus(event));
    this.figure.addEventListener("click", (event) => event.target.closest("td")?.focus({preventScroll: true}));
    this.addSlider("row", tensor.rows, "rows");
    this.addSlider("column", tensor.columns, "columns");
  }
  drawable() {
    return this.box.isConnected && this.figure.contains(this.box);
  }

  addSlider(axis, count, plural) {
    if (this.everything || count <= kWholeAxis) return;
    const first = axis === "row" ? this.tensor.firstRow : this.tensor.firstColumn;
    const slider = element("input", {type: "range", min: 0, max: count - kWindow, value: 0});
    slider.setAttribute("aria-label", `first of the ${plural} shown in ${this.tensor.title}`);
    const text = element("span");
    slider.addEventListener("input", () => {
      this.start[axis] = Number(slider.value);
      this.render();
    });
    this.sliders.append(element("label", {}, text, slider));
    this.updates ??= [];
    this.updates.push(() => {
      const start = this.start[axis];
      slider.value = start;
      text.textContent = `${plural} ${first + start} … ${first + start + kWindow - 1} of ${count}`;
    });
  }

  render() {
    if (!this.drawable()) return;
    const {tensor} = this;
    const hadFocus = this.box.contains(document.activeElement);
    for (const update of this.updates ?? []) update();
    const rows = drawnIndices(tensor.rows, this.start.row, this.everything);
    const columns = drawnIndices(tensor.columns, this.start.column, this.everything);
    this.largest = largestOf(tensor); // where the colour scale ends
    this.cells.clear();
    const table = element("table", {
      role: "grid",
      "aria-label": this.label(),
      "aria-rowcount": tensor.rows + 1,
      "aria-colcount": tensor.columns + 1,
    });
    table.append(this.headRow(columns));
    const body = element("tbody");
    for (const row of rows)
      body.append(row === null ? this.gapRow(columns) : this.bodyRow(row + tensor.firstRow, columns));
    const edge = element("span", {}, edgeText(tensor, tensor.rowAxis));
    body.firstChild.prepend(element("td", {className: "edge left", rowSpan: rows.length, "aria-hidden": "true"}, edge));
    table.append(body);
    this.box.replaceChildren(table);
    this.box.style.setProperty("--columns", columns.length);
    this.showLegend();
    this.paintMarks();
    const inside = this.cells.get(this.key(this.current.row, this.current.column)) ?? this.cells.values().next().value;
    inside.tabIndex = 0;
    if (hadFocus) inside.focus({preventScroll: true});
  }
  label() {
    const {tensor} = this;
    return `${tensor.title}, ${tensor.rows} rows by ${tensor.columns} columns`;
  }
  // Between the place in the drawing and the place in the tensor.
  placed(place) {
    return this.tensor.source ? {...place, row: place.column, column: place.row} : place;
  }
  key(row, column) {
    return `${row},${column}`;
  }

  headRow(columns) {
    const {tensor} = this;
    const tokens = tokensOf(tensor, tensor.columnAxis);
    const cells = columns.map((column) => {
      if (column === null) return element("th", {className: "gap", "aria-hidden": "true"}, "…");
      return this.header(column + tensor.firstColumn, tokens, "col");
    });
    const edge = element(
      "td",
      {className: "edge top", colSpan: columns.length},
      element("span", {}, edgeText(tensor, tensor.columnAxis)),
    );
    return element(
      "thead",
      {},
      element("tr", {"aria-hidden": "true"}, element("td", {colSpan: 2}), edge),
      element("tr", {}, element("td", {colSpan: 2}), ...cells),
    );
  }
  header(index, tokens, scope) {
    const text = tokens ? tokenText(tokens[index]) : String(index);
    const made = element(
      "th",
      {scope, className: tokens ? "token" : "", title: tokens ? `${index}: ${text}` : ""},
      text,
    );
    if (scope === "col" && this.beginsGroup(index)) made.classList.add("group");
    return made;
  }
  // Columns that belong to different heads are told apart by a line.
  beginsGroup(column) {
    const width = this.tensor.groupWidth;
    return width > 1 && column > 0 && column % width === 0;
  }
  gapRow(columns) {
    const cells = columns.map(() => element("td", {className: "gap", "aria-hidden": "true"}, "⋮"));
    return element("tr", {className: "gap", "aria-hidden": "true"}, element("th", {}, "⋮"), ...cells);
  }
  bodyRow(row, columns) {
    const {tensor} = this;
    const made = element("tr", {"aria-rowindex": row - tensor.firstRow + 2});
    if (tensor.rowAxis < 0) made.append(element("th", {}));
    else made.append(this.header(row, tokensOf(tensor, tensor.rowAxis), "row"));
    for (const column of columns) {
      if (column === null) made.append(element("td", {className: "gap", "aria-hidden": "true"}, "…"));
      else made.append(this.cell(row, column + tensor.firstColumn));
    }
    return made;
  }
  cell(row, column) {
    const {tensor} = this;
    const value = cellValue(tensor, row, column);
    const hidden = isHidden(tensor, row, column);
    const made = element(
      "td",
      {tabIndex: -1, "aria-colindex": column - tensor.firstColumn + 2},
      numberText(value, kState.digits),
    );
    made.dataset.row = row;
    made.dataset.column = column;
    if (hidden) made.classList.add("hidden");
    else if (Number.isNaN(value)) made.classList.add("nan");
    else made.style.background = heat(Number.isFinite(value) ? value : 0, this.largest, this.signed);
    if (this.beginsGroup(column)) made.classList.add("group");
    this.cells.set(this.key(row, column), made);
    return made;
  }

  showLegend() {
    const end = numberText(this.largest, Math.min(2, kState.digits));
    const bar = element("i", {className: this.signed ? "signed" : "share", "aria-hidden": "true"});
    const low = this.signed && this.largest > 0 ? kMinus + end : "0";
    this.legend.replaceChildren(element("span", {}, low), bar, element("span", {}, end));
    this.legend.hidden = this.largest === 0;
  }

  onFocus(event) {
    const cell = event.target.closest("td[data-row]");
    if (!cell) return;
    for (const other of this.box.querySelectorAll('td[tabindex="0"]')) other.tabIndex = -1;
    cell.tabIndex = 0;
    this.current = {row: Number(cell.dataset.row), column: Number(cell.dataset.column)};
    const {row, column} = this.placed(this.current);
    this.onSelect(this, row, column);
  }
  onKey(event) {
    if (!event.target.closest("td[data-row]") || event.altKey || event.metaKey) return;
    const {tensor} = this;
    const last = {row: tensor.firstRow + tensor.rows - 1, column: tensor.firstColumn + tensor.columns - 1};
    const {row, column} = this.current;
    const end = event.ctrlKey;
    const target = {
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      Home: [end ? tensor.firstRow : row, tensor.firstColumn],
      End: [end ? last.row : row, last.column],
      PageUp: [row - kWindow, column],
      PageDown: [row + kWindow, column],
    }[event.key];
    if (!target) return;
    event.preventDefault();
    const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
    this.go(clamp(target[0], tensor.firstRow, last.row), clamp(target[1], tensor.firstColumn, last.column));
  }
  // Moves the focus to a cell, and the window with it.
  go(row, column) {
    this.current = {row, column};
    this.reveal(row, column);
    const cell = this.cells.get(this.key(row, column));
    cell.focus({preventScroll: true});
    cell.scrollIntoView({block: "nearest", inline: "nearest"});
  }
  // Moves the window so that the row and the column (where given) are drawn.
  reveal(row, column) {
    const moved = [
      this.moveWindow("row", row, this.tensor.firstRow, this.tensor.rows),
      this.moveWindow("column", column, this.tensor.firstColumn, this.tensor.columns),
    ];
    if (moved.some(Boolean)) this.render();
  }
  moveWindow(axis, index, first, count) {
    if (index === null || this.everything || count <= kWholeAxis) return false;
    const at = index - first;
    if (drawnIndices(count, this.start[axis], false).includes(at)) return false;
    const start = at < this.start[axis] ? at : at - kWindow + 1;
    this.start[axis] = Math.max(0, Math.min(count - kWindow, start));
    return true;
  }

  // Marks are {row, column, side}: null for a whole row or column, of which hidden cells are no operands.
  setMarks(marks) {
    this.marks = marks.map((mark) => this.placed(mark));
    if (!this.drawable()) return;
    for (const mark of this.marks) this.reveal(mark.row, mark.column);
    this.paintMarks();
  }
  paintMarks() {
    for (const cell of this.cells.values()) {
      const row = Number(cell.dataset.row);
      const column = Number(cell.dataset.column);
      const hits = this.marks.filter((mark) => (mark.row ?? row) === row && (mark.column ?? column) === column);
      const sides = hits
        .map((mark) => mark.side)
        .filter((side) => side === "chosen" || !cell.classList.contains("hidden"));
      for (const side of kSides) cell.classList.toggle(side, sides.includes(side));
      if (sides.includes("chosen")) cell.setAttribute("aria-selected", "true");
      else cell.removeAttribute("aria-selected");
    }
  }
}

// "Dk = 4": the name and the size of an axis, and which part is recorded where it is not the whole.
function edgeText(tensor, axis) {
  if (axis < 0) return "";
  const [size, whole, first] = [tensor.shape[axis], tensor.of[axis], tensor.first[axis]];
  const name = tensor.dims[axis] ? `${tensor.dims[axis]} = ${whole}` : String(whole);
  return size === whole ? name : `${name}: ${first} … ${first + size - 1}`;
}
