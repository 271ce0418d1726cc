// The page: head, controls, the steps in order, what was compared, gradients, top keys, checks.

const kGroups = {
  0: ["Inputs", ""],
  1: ["Queries, keys, values", ""],
  2: ["Heads apart", "Each head takes columns of its own and works alone from here on. Numbers only move."],
  3: ["Scores and weights", ""],
  4: ["Weighted means of the values", ""],
  5: ["Heads back to their tokens", "Each token collects what its heads found. Numbers only move."],
  6: ["Heads side by side", ""],
  7: ["Out", ""],
};

function shapeText(tensor) {
  return `[${tensor.of.map((size, axis) => (tensor.dims[axis] ? `${tensor.dims[axis]} ${size}` : size)).join(", ")}]`;
}

function addMatrix(parent, tensor) {
  const matrix = new Matrix(tensor, select, [element("code", {}, tensor.name)]);
  kMatrices.set(tensor.name, matrix);
  parent.append(matrix.figure);
  return matrix;
}

// The head of the page: title, sizes, options, notes.
function addHead() {
  document.title = `Heed: ${kData.title ?? "attention, step by step"}`;
  $("title").textContent = kData.title ?? "Attention, step by step";
  const names = {
    batch: "batch B",
    queries: "queries Tq",
    keys: "keys Tk",
    heads: "heads H",
    kv_heads: "key/value heads Hkv",
    d_k: "width Dk",
    d_v: "width Dv",
    width_x: "width of x",
    width_context: "width of context",
    width_out: "width of out",
  };
  const told = Object.entries(kSizes).filter(([key, value]) => key !== "kv_heads" || value !== kSizes.heads);
  const facts = told.map(([key, value]) => [names[key] ?? key, value]);
  if (kData.scale !== undefined) facts.push(["scale", operandText(kData.scale, 4)]);
  facts.push(["mask", kData.mask ?? "none"], ["weights by", kData.normalizer ?? "softmax"]);
  for (const option of kData.options ?? []) facts.push(["option", option]);
  for (const [name, value] of facts)
    $("facts").append(element("div", {}, element("dt", {}, name), element("dd", {}, String(value))));
  $("notes").append(...(kData.notes ?? []).map((note) => element("li", {}, note)));
  $("notes").hidden = !kData.notes?.length;
}

// A labelled select; `values` are [value, text].
function addSelect(text, values, value, onChange) {
  const options = values.map(([each, name]) => element("option", {value: each, selected: each === value}, name));
  const made = element("select", {}, ...options);
  made.addEventListener("change", () => onChange(made.value));
  $("controls").append(element("label", {}, text, made));
}

// The range that is recorded along an axis, over all steps: [first, count].
function recordedRange(axisOf, whole) {
  for (const step of kSteps.values()) {
    const axis = axisOf(step);
    if (axis >= 0 && step.of[axis] === whole) return [step.first[axis], step.shape[axis]];
  }
  return [0, 1];
}

function addControls() {
  const redraw = () => {
    renderAll();
    showStory();
  };
  const choose = (key, name, [first, count]) => {
    kState[key] = first;
    if (count <= 1) return;
    const values = range(count).map((i) => [String(first + i), `${first + i}`]);
    addSelect(name, values, String(first), (value) => {
      kState[key] = Number(value);
      redraw();
    });
  };
  const items = recordedRange((step) => step.itemAxis, kSizes.batch);
  const heads = recordedRange((step) => step.headAxis, kSizes.heads);
  choose("item", "batch item", items);
  choose("head", "head", heads);
  const digits = [..."123456789"].map((digit) => [digit, digit]);
  addSelect("digits", digits, String(kState.digits), (value) => {
    kState.digits = Number(value);
    redraw();
  });
  const themes = Object.entries({"light dark": "as the system", light: "light", dark: "dark"});
  addSelect("theme", themes, savedTheme(), (theme) => {
    showTheme(theme);
    saveTheme(theme);
  });
  showTheme(savedTheme());
  $("controls").addEventListener("submit", (event) => event.preventDefault());
}

// The theme is remembered where the browser allows a page from disk to remember.
function savedTheme() {
  try {
    return localStorage.getItem("heed-theme") ?? "light dark";
  } catch {
    return "light dark";
  }
}
function saveTheme(theme) {
  try {
    localStorage.setItem("heed-theme", theme);
  } catch {
    // Nothing to do: it holds until the page is closed.
  }
}
function showTheme(theme) {
  document.documentElement.style.colorScheme = theme;
}

function addSection(title, number, text) {
  const heading = element("h2", {}, ...(number === undefined ? [] : [element("b", {}, String(number)), " "]), title);
  const section = element("section", {}, heading, ...(text ? [element("p", {}, text)] : []));
  $("main").append(section);
  return section;
}

// A step: name, shape, formula, meaning; its matrix, and before it, where it is a product, all that it is made of.
function addStep(section, tensor) {
  const {name, formula} = tensor.entry;
  const head = element(
    "h3",
    {},
    element("code", {}, name),
    " ",
    element("span", {className: "shape"}, shapeText(tensor)),
  );
  const part = element("div", {className: "step"}, head);
  if (formula && formula !== name) part.append(element("p", {className: "formula"}, formula));
  const meaning = kTable.get(name)?.meaning;
  if (meaning) part.append(element("p", {className: "meaning"}, meaning));
  if (tensor.entry.nonfinite > 0 && name !== "masked") {
    part.append(element("p", {className: "warning"}, `${tensor.entry.nonfinite} of its numbers are not finite.`));
  }
  const row = element("div", {className: "matrices"});
  if (name === "concat") tensor.groupWidth = kSizes.d_v;
  addEquation(row, tensor);
  part.append(row);
  section.append(part);
}

// Steps in order; those of one number form a section. Steps 2 and 5 have no numbers and are told where they happen.
function addSteps() {
  let number;
  let section;
  const many = kSizes.heads > 1;
  for (const tensor of kSteps.values()) {
    const n = tensor.entry.n;
    if (n !== number) {
      if (many && n === 3) addSection(kGroups[2][0], 2, kGroups[2][1]);
      if (many && n === 6) addSection(kGroups[5][0], 5, kGroups[5][1]);
      section = element("div", {className: "steps"});
      addSection(kGroups[n]?.[0] ?? "", n, kGroups[n]?.[1]).append(section);
      number = n;
    }
    addStep(section, tensor);
  }
  const left = [...kParameters.values()].filter((parameter) => !kMatrices.has(parameter.name));
  if (left.length > 0) {
    const row = element("div", {className: "matrices"});
    addSection("Parameters of steps that are not shown").append(row);
    for (const parameter of left) addMatrix(row, parameter);
  }
}

// Matrices to be compared, side by side, each with its row sums.
function addComparisons() {
  if (!kData.comparisons?.length) return;
  const row = element("div", {className: "matrices"});
  addSection("Side by side").append(row);
  kData.comparisons.forEach((entry, at) => {
    const tensor = new Tensor({...entry, name: `comparison ${at + 1}`, dims: ["Tq", "Tk"]}, "comparison");
    const verdict = element(
      "strong",
      {className: entry.right ? "right" : "wrong"},
      entry.right ? "✓ right" : "✗ wrong",
    );
    const caption = [
      element("span", {}, entry.title),
      " ",
      verdict,
      element("br"),
      element("span", {className: "formula"}, entry.formula ?? ""),
    ];
    const matrix = new Matrix(tensor, select, caption);
    matrix.figure.classList.add("comparison");
    kMatrices.set(tensor.name, matrix);
    const sums = element("p", {className: "sums"});
    matrix.afterRender = () => {
      sums.textContent = `row sums: ${(entry.row_sums ?? []).map((sum) => numberText(sum, kState.digits)).join(", ")}`;
    };
    matrix.figure.append(sums, element("p", {className: "why"}, entry.why ?? ""));
    row.append(matrix.figure);
  });
}

function addGradients() {
  if (!kData.gradients?.length) return;
  const section = addSection("Gradients", undefined, "What each number does to the loss, by the backward pass.");
  const row = element("div", {className: "matrices"});
  section.append(row);
  for (const entry of kData.gradients) {
    const matrix = addMatrix(row, new Tensor(entry, "gradient"));
    if (entry.finite_difference_error === undefined) continue;
    matrix.figure.append(
      element(
        "p",
        {className: "sums"},
        `finite differences differ by ≤ ${numberText(entry.finite_difference_error, 4)}`,
      ),
    );
  }
}

// Top keys of the chosen item and head, drawn anew when they change.
function addTopKeys() {
  if (!kData.top_keys?.length) return;
  const section = addSection("Top keys", undefined, "The keys that each query attends to most.");
  const box = element("div", {className: "scroll"});
  section.append(box);
  const kRows = 64;
  kRedraws.push(() => {
    const mine = kData.top_keys.filter((entry) => entry.b === kState.item && entry.head === kState.head);
    const head = ["query", "entropy", "largest score", "keys, by weight"].map((text) =>
      element("th", {scope: "col"}, text),
    );
    const body = mine.slice(0, kRows).map((entry) => {
      const name = (tokens, i) => (tokens ? `${tokenText(tokens[i] ?? "")} (${i})` : String(i));
      const keys = entry.keys
        .map((key, at) => `${name(kData.tokens?.key, key)} ${shown(entry.weights[at])}`)
        .join(", ");
      const cells = [shown(entry.entropy), shown(entry.largest), keys].map((text) => element("td", {}, text));
      return element(
        "tr",
        {},
        element("th", {scope: "row", className: "token"}, name(kData.tokens?.query, entry.row)),
        ...cells,
      );
    });
    const table = element(
      "table",
      {className: "plain"},
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body),
    );
    const more =
      mine.length > kRows
        ? [element("p", {}, `${mine.length - kRows} more queries: heed attend --json has them all.`)]
        : [];
    box.replaceChildren(table, ...more);
  });
}
const shown = (x) => numberText(x ?? NaN, kState.digits);

function addChecks() {
  const names = {
    rows_nonfinite: "rows of heads that are not finite",
    out_rows_nonfinite: "rows of out that are not finite",
    first_row_nonfinite: "the first of them",
    row_sum_max_err: "largest distance of a row sum from 1",
    ref_max_abs_diff: "largest error against the float64 reference",
    visible_pairs: "pairs of query and key that see each other",
    rows_without_key: "queries that see no key",
  };
  const list = (title, object, ...before) => {
    if (!object) return;
    const entries = flatten(object).map(([key, value]) =>
      element("div", {}, element("dt", {}, names[key] ?? key.replaceAll("_", " ")), element("dd", {}, value)),
    );
    addSection(title).append(...before, element("dl", {className: "facts"}, ...entries));
  };
  list("Checks", kData.checks, ...nonfiniteWarning(kData.checks ?? {}));
  list("Plan of the call", kData.plan);
}

// What is not finite comes before every other check: those are of the rest.
function nonfiniteWarning(checks) {
  const [inHeads, inOut] = [checks.rows_nonfinite ?? 0, checks.out_rows_nonfinite ?? 0];
  const count = inHeads || inOut;
  if (count === 0) return [];
  const rows = inHeads > 0 ? `of ${checks.rows_shown} rows` : count === 1 ? "row of out" : "rows of out";
  const first = `${count === 1 ? "" : "the first is "}${checks.first_row_nonfinite}`;
  const text = `${count} ${rows} ${count === 1 ? "is" : "are"} not finite (NaN or ∞): ${first}.`;
  return [element("p", {className: "warning"}, `${text} The other checks are of what is finite.`)];
}

// Nested objects as [dotted key, text].
function flatten(object, prefix = "") {
  return Object.entries(object).flatMap(([key, value]) => {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return flatten(value, `${prefix}${key}.`);
    const text =
      typeof value === "number" && !Number.isInteger(value)
        ? numberText(value, 4)
        : Array.isArray(value)
          ? value.join(", ")
          : String(value ?? "NaN");
    return [[prefix + key, text]];
  });
}

const kRedraws = [];
function renderAll() {
  for (const matrix of [...kMatrices.values(), ...kCopies]) {
    matrix.render();
    matrix.afterRender?.();
  }
  for (const redraw of kRedraws) redraw();
}

addHead();
addControls();
addSteps();
addComparisons();
addGradients();
addTopKeys();
addChecks();
$("alone").remove();
$("page").hidden = false;
renderAll();
chooseFirst();
