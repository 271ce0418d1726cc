// The tensors of the page: what heed attend --json prints, looked at as matrices of one batch item and one head.

const kData = JSON.parse(document.getElementById("data").textContent);
const kSizes = kData.sizes ?? {};

// What the reader has chosen. Heads are query heads.
const kState = {item: 0, head: 0, digits: 4};

// The axes of parameters: rows are inputs, columns outputs. A bias has columns alone.
const kParameterDims = {
  W_Q: ["C", "H·Dk"],
  W_K: ["C", "Hkv·Dk"],
  W_V: ["C", "Hkv·Dv"],
  W_O: ["H·Dv", "C_out"],
  b_Q: ["H·Dk"],
  b_K: ["Hkv·Dk"],
  b_V: ["Hkv·Dv"],
  b_O: ["C_out"],
};

// The inner structure of a step, a gradient or a parameter. Rows and columns are counted in the whole tensor;
// those from `first` on, `rows` × `columns` of them, are recorded.
class Tensor {
  constructor(entry, kind) {
    this.entry = entry;
    this.kind = kind; // "step", "gradient", "parameter", "comparison"
    this.name = entry.name;
    this.shape = entry.shape ?? [];
    this.dims = entry.dims ?? kParameterDims[entry.name]?.slice(-this.shape.length) ?? this.shape.map(() => "");
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
const kParameters = new Map((kData.parameters ?? []).map((entry) => [entry.name, new Tensor(entry, "parameter")]));

// May query `row` see key `column`? Asked of the steps that stand behind the mask.
function visible(row, column) {
  const step = kSteps.get("masked") ?? kSteps.get("weights");
  if (!kData.visible || !step || !step.has(row, column)) return true;
  const item = kData.visible[Math.min(kState.item - step.first[0], kData.visible.length - 1)];
  const head = item[Math.min(step.headOf(kState.head) - step.first[step.headAxis], item.length - 1)];
  return head[row - step.firstRow][column - step.firstColumn] !== 0;
}

// Steps between scores and weights, in the order in which they are taken.
const kScoreSteps = ["scores", "scaled", "capped", "biased", "masked"];
const kHidingSteps = new Set(["masked", "weights", "dropped", "weights.grad"]);

// The last recorded score step before `name`, or undefined.
function scoreStepBefore(name) {
  const end = kScoreSteps.includes(name) ? kScoreSteps.indexOf(name) : kScoreSteps.length;
  return kScoreSteps
    .slice(0, end)
    .reverse()
    .map((step) => kSteps.get(step))
    .find((step) => step !== undefined);
}

// What a cell holds: a hidden score is −∞, another number that is not finite is NaN.
function cellValue(tensor, row, column) {
  const value = tensor.at(row, column);
  if (!Number.isNaN(value) || tensor.kind !== "step" || visible(row, column)) return value;
  if (tensor.name === "masked") return -Infinity;
  const before = scoreStepBefore("biased");
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
