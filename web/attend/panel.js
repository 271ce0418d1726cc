// The panel: the chosen cell, its arithmetic, and the marks on what it is made from.

const kMatrices = new Map(); // by name
const kCopies = []; // further drawings of the same tensors, as factors
const kProducts = new Map(); // by the name of the result: the drawings of its factors, by name
const $ = (id) => document.getElementById(id);

// The chosen cell: {matrix, row, column}, as the tensor counts them.
let chosen;
function select(matrix, row, column) {
  chosen = {matrix, row, column};
  showStory();
}

function showStory() {
  if (!chosen) return;
  const {matrix, row, column} = chosen;
  const tensor = matrix.tensor.source ?? matrix.tensor;
  const story = storyOf(tensor, row, column);
  // Operands are marked where the product draws them; where it is none, where their own step does.
  const drawing = (name) => kProducts.get(tensor.name)?.get(name) ?? kMatrices.get(name);
  for (const other of [...kMatrices.values(), ...kCopies]) {
    const marks = story.operands.filter((mark) => drawing(mark.name) === other);
    if (other === matrix || other === kMatrices.get(tensor.name)) marks.push({row, column, side: "chosen"});
    if (marks.length > 0 || other.marks.length > 0) other.setMarks(marks);
  }
  const value = numberText(cellValue(tensor, row, column), kState.digits);
  const name = tensor.rowAxis < 0 ? `${tensor.name}[${column}]` : index(tensor.name, row, column);
  const lines = story.lines.filter((line) => line !== value).map((line) => element("p", {className: "line"}, line));
  $("arithmetic").replaceChildren(
    element("p", {className: "place"}, placeText(tensor, row, column)),
    element("p", {className: "cell"}, name),
    ...lines,
    element("p", {className: "line total"}, value),
    ...(story.note ? [element("p", {className: "note"}, story.note)] : []),
  );
}

// "query gustan, key like, head 1": where the cell stands.
function placeText(tensor, row, column) {
  const kinds = {Tq: "query", Tk: "key"};
  const place = (axis, at, other) => {
    const tokens = tokensOf(tensor, axis);
    return `${kinds[tensor.dims[axis]] ?? other} ${at}${tokens ? ` “${tokenText(tokens[at])}”` : ""}`;
  };
  const parts = [];
  if (tensor.rowAxis >= 0) parts.push(place(tensor.rowAxis, row, "row"));
  parts.push(place(tensor.columnAxis, column, "column"));
  if (tensor.headAxis >= 0 && kSizes.heads > 1) parts.push(`head ${kState.head}`);
  if (tensor.itemAxis >= 0 && kSizes.batch > 1) parts.push(`item ${kState.item}`);
  return parts.join(", ");
}

// The page opens with a cell of the weights told (of another matrix where they are not recorded), to show what can be
// asked: in the second row, because a causal first row sees one key only.
function chooseFirst() {
  const matrix = kMatrices.get("weights") ?? [...kMatrices.values()].find((each) => each.tensor.recorded());
  if (!matrix || !matrix.drawable()) return;
  const {tensor} = matrix;
  select(matrix, tensor.firstRow + Math.min(1, tensor.rows - 1), tensor.firstColumn);
}
