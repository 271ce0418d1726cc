// Products drawn whole: every factor, what is added, and the result, as the formula has them.

// The steps that are products: their factors, as the formula has them, and what is added. A projection is one where there
// is a matrix for it.
function productOf(name) {
  const [left, right, bias] = kTable.get(name)?.sources ?? [];
  if (!right || (bias && !kParameters.has(right))) return undefined;
  return {factors: [sourceName(left), right], bias, turned: name === "scores"};
}

// A factor of a product: a parameter is drawn here, what an earlier step has drawn is drawn again.
function addFactor(parent, name, turned) {
  if (kParameters.has(name) && !kMatrices.has(name)) return addMatrix(parent, kParameters.get(name));
  const found = kSteps.get(name) ?? kParameters.get(name);
  if (!found) {
    const text = element("p", {className: "omitted"}, "not on this page");
    const caption = element("figcaption", {}, element("code", {}, turned ? `${name}ᵀ` : name));
    parent.append(element("figure", {className: "matrix absent"}, caption, text));
    return undefined;
  }
  const tensor = turned ? found.transposed() : found;
  const matrix = new Matrix(tensor, select, [element("code", {}, tensor.title)], true);
  kCopies.push(matrix);
  parent.append(matrix.figure);
  return matrix;
}

// "x · W_Q + b_Q = q", drawn; the matrix alone where it is no product.
function addEquation(row, tensor) {
  const {name} = tensor;
  const product = productOf(name);
  const addTerm = (sign) => {
    const signs = sign ? [element("span", {className: "sign", "aria-hidden": "true"}, sign)] : [];
    const term = element("div", {className: "term"}, ...signs);
    row.append(term);
    return term;
  };
  const drawn = new Map();
  (product?.factors ?? []).forEach((factor, at) => {
    const parameter = kParameters.get(factor);
    if (parameter && tensor.headAxis >= 0) parameter.groupWidth = tensor.whole(tensor.columnAxis);
    drawn.set(factor, addFactor(addTerm(at > 0 ? "·" : ""), factor, at > 0 && product.turned));
  });
  const bias = kParameters.get(product?.bias);
  if (bias) {
    if (tensor.headAxis >= 0) bias.groupWidth = tensor.whole(tensor.columnAxis);
    drawn.set(product.bias, addFactor(addTerm("+"), product.bias));
  }
  kProducts.set(name, drawn);
  const matrix = addMatrix(addTerm(product ? "=" : ""), tensor);
  matrix.figure.classList.toggle("only", !product);
  if (!kParameters.has(product?.factors[1]) || tensor.headAxis < 0 || !(kSizes.heads > 1)) return;
  // The matrix has the columns of all heads, the result is looked at head by head.
  const note = element("span", {className: "shape"});
  matrix.figure.querySelector("figcaption").append(" ", note);
  matrix.afterRender = () => (note.textContent = `head ${tensor.headOf(kState.head)}`);
}
