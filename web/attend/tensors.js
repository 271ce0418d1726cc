// The tensors of the page: what heed attend --json prints, looked at as matrices of one batch item and one head.

const kData = JSON.parse(document.getElementById("data").textContent);
const kSizes = kData.sizes ?? {};

// What the reader has chosen. Heads are query heads.
const kState = {item: 0, head: 0, digits: 4};

// The table of steps (heed/attention/step_table.h), by name: dims, sources, optional, meaning.
const kTable = new Map(JSON.parse(document.getElementById("steps").textContent).map((row) => [row.name, row]));

// The inner structure of a step, a gradient or a parameter. Rows and columns are counted in the whole tensor;
// those from `first` on, `rows` × `columns` of them, are recorded.
class Tensor {
  constructor(entry, kind) {
    this.entry = entry;
    this.kind = kind; // "step", "gradient", "parameter", "comparison"
    this.name = entry.name;
    this.shape = entry.shape ?? [];
    this.dims = entry.dims ?? this.shape.map(() => "");
    this.of = entry.of ?? this.shape;
    this.first = entry.first ?? this.shape.map(() => 0);
    const axes = this.dims.map((_, axis) => axis);
    this.itemAxis = this.dims.indexOf("B");
    this.headAxis = this.dims.findIndex((dim) => dim === "H" || dim === "Hkv");
    const free = axes.filter((axis) => axis !== this.itemAxis && axis !== this.headAxis);
    this.columnAxis = free.at(-1) ?? -1;
    this.rowAxis = free.at(-2) ?? -1;
    this.fixedAxes = free.slice(0, -2);
  }
  // The same numbers with rows and columns exchanged, as kᵀ has them; `source` is the tensor that they are of.
  transposed() {
    const axes = {rowAxis: this.columnAxis, columnAxis: this.rowAxis};
    return Object.assign(Object.create(Tensor.prototype), this, axes, {source: this});
  }
  get title() {
    return this.source ? `${this.name}ᵀ` : this.name;
  }
  recorded() {
    return Array.isArray(this.entry.data);
  }
  size(axis) {
    return axis < 0 ? 1 : this.shape[axis];
  }
  whole(axis) {
    return axis < 0 ? 1 : this.of[axis];
  }
  start(axis) {
    return axis < 0 ? 0 : this.first[axis];
  }
  get rows() {
    return this.size(this.rowAxis);
  }
  get columns() {
    return this.size(this.columnAxis);
  }
  get firstRow() {
    return this.start(this.rowAxis);
  }
  get firstColumn() {
    return this.start(this.columnAxis);
  }
  // Which of this tensor's heads query head `head` reads: key/value heads are shared by neighbours.
  headOf(head) {
    if (this.headAxis < 0) return 0;
    return Math.floor((head * this.whole(this.headAxis)) / (kSizes.heads ?? this.whole(this.headAxis)));
  }
  // Is element (row, column) of query head `head` on this page?
  has(row, column, head = kState.head) {
    const inside = (index, axis) => index >= this.start(axis) && index < this.start(axis) + this.size(axis);
    return (
      this.recorded() &&
      inside(row, this.rowAxis) &&
      inside(column, this.columnAxis) &&
      (this.headAxis < 0 || inside(this.headOf(head), this.headAxis))
    );
  }
  // Are all columns (all rows) of the whole tensor on this page?
  hasWhole(axis) {
    return this.recorded() && this.size(axis) === this.whole(axis);
  }
  // The number as recorded; NaN where it is not finite.
  at(row, column, head = kState.head) {
    let part = this.entry.data;
    for (let axis = 0; axis < this.shape.length; ++axis) {
      let index = 0;
      if (axis === this.rowAxis) index = row - this.firstRow;
      else if (axis === this.columnAxis) index = column - this.firstColumn;
      else if (axis === this.headAxis) index = this.headOf(head) - this.first[axis];
      else if (axis === this.itemAxis) index = Math.min(kState.item - this.first[axis], this.shape[axis] - 1);
      part = part[index];
    }
    return part ?? NaN;
  }
}

const kSteps = new Map((kData.steps ?? []).map((entry) => [entry.name, new Tensor(entry, "step")]));
// Do keys and values come from a context of their own? Known by its step, or where inputs are not shown, by a formula.
const kCross =
  kSteps.has("context") ||
  (!kSteps.has("x") && [...kSteps.values()].some(({entry}) => /= context /.test(entry.formula)));

// The axes of a parameter: rows are inputs, columns outputs. A bias has columns alone.
const parameterDims = (name) => kTable.get(name)?.dims.map((dim) => (dim === "C'" && !kCross ? "C" : dim));
const kParameters = new Map(
  (kData.parameters ?? []).map((entry) => {
    const dims = parameterDims(entry.name)?.slice(-entry.shape.length);
    return [entry.name, new Tensor({dims, ...entry}, "parameter")];
  }),
);

// May query `row` see key `column`? Asked of the steps that stand behind the mask.
function visible(row, column) {
  const step = kSteps.get("masked") ?? kSteps.get("weights");
  if (!kData.visible || !step || !step.has(row, column)) return true;
  const item = kData.visible[Math.min(kState.item - step.first[0], kData.visible.length - 1)];
  const head = item[Math.min(step.headOf(kState.head) - step.first[step.headAxis], item.length - 1)];
  return head[row - step.firstRow][column - step.firstColumn] !== 0;
}

// The steps with a number for each query and key, in the order in which they are taken.
const kPairSteps = [...kTable.values()].filter((row) => row.dims.at(-1) === "Tk").map((row) => row.name);
const kHidingSteps = new Set([...kPairSteps.slice(kPairSteps.indexOf("masked")), "weights.grad"]);
// Weights are shares: never negative.
const kShares = new Set(kPairSteps.slice(kPairSteps.indexOf("weights")));

// The name of what stands for the step `name` in this attention: the step itself or, where it is not taken, what it would
// come from.
function sourceName(name) {
  const {optional, sources} = kTable.get(name);
  const taken = !optional || kSteps.has(name) || (name === "context" && kCross);
  return taken ? name : sourceName(sources[0]);
}

// The sources of a step as they are on this page; undefined where one is not.
const sourcesOf = (name) => kTable.get(name).sources.map((source) => kSteps.get(sourceName(source)));

// What a cell holds: a hidden score is −∞, another number that is not finite is NaN.
function cellValue(tensor, row, column) {
  const value = tensor.at(row, column);
  if (!Number.isNaN(value) || tensor.kind !== "step" || visible(row, column)) return value;
  if (tensor.name === "masked") return -Infinity;
  const [before] = sourcesOf("biased");
  const biasHides = tensor.name === "biased" && (!before || !Number.isNaN(before.at(row, column)));
  return biasHides ? -Infinity : value;
}

// The largest size of a finite number in the matrix that is looked at.
function largestOf(tensor) {
  const key = `${kState.item},${kState.head}`;
  if (tensor.largestKey === key) return tensor.largest;
  let largest = 0;
  for (let row = tensor.firstRow; row < tensor.firstRow + tensor.rows; ++row) {
    for (let column = tensor.firstColumn; column < tensor.firstColumn + tensor.columns; ++column) {
      const size = Math.abs(tensor.at(row, column));
      if (size > largest && size < Infinity) largest = size;
    }
  }
  Object.assign(tensor, {largest, largestKey: key});
  return largest;
}

// Is the cell hatched?
function isHidden(tensor, row, column) {
  return kHidingSteps.has(tensor.name) && !visible(row, column);
}

// Tokens that name the rows or columns of an axis, or undefined.
function tokensOf(tensor, axis) {
  if (axis < 0 || tensor.kind === "parameter") return undefined;
  const tokens = {Tq: kData.tokens?.query, Tk: kData.tokens?.key}[tensor.dims[axis]];
  return tokens && tokens.length === tensor.of[axis] ? tokens : undefined;
}
