// The arithmetic of a cell: which numbers of earlier matrices make it, and how.
//
// A story is {lines, operands, result, size, note}: lines of text that each begin after an "="; operands as
// {name, row, column, side}, null for a whole row or column; the result as recomputed here in double; the sum of the
// sizes of its terms, which bounds what rounding can do; a remark.

const index = (name, row, column) => `${name}[${row}][${column}]`;
const operand = (x) => operandText(x, kState.digits);
const taken = (note) => ({lines: [], operands: [], result: undefined, size: 0, note});
const range = (count) => Array.from({length: count}, (_, i) => i);

// Σ of products, and a last term that stands alone (a bias), where there is one.
function productSum(pairs, alone) {
  const terms = alone === undefined ? pairs : [...pairs, [alone]];
  const value = (t) => terms[t].reduce((product, factor) => product * factor, 1);
  const text = (t) => terms[t].map(operand).join("·");
  const values = terms.map((_, t) => value(t));
  return {
    text: sumText(terms.length, value, text, kState.digits),
    result: values.reduce((sum, x) => sum + x, 0),
    size: values.reduce((sum, x) => sum + Math.abs(x), 0),
  };
}

// q, k, v and out: a row of the input times a column of the matrix, plus the bias.
function project(tensor, row, column) {
  const [, weightName, biasName] = kTable.get(tensor.name).sources;
  const [input] = sourcesOf(tensor.name);
  const weight = kParameters.get(weightName);
  if (!weight) return taken("Given: there is no projection here.");
  if (!weight.recorded()) return taken(`${weightName} is too large for this page (${weight.entry.omitted}).`);
  if (!input) return taken("The input that it is made from is not on this page.");
  if (!input.has(row, input.firstColumn) || !input.hasWhole(input.columnAxis)) {
    return taken(`Not all of row ${row} of ${input.name} is on this page.`);
  }
  const target = tensor.headAxis < 0 ? column : tensor.headOf(kState.head) * tensor.whole(tensor.columnAxis) + column;
  const bias = kParameters.get(biasName);
  const pairs = range(weight.rows).map((c) => [input.at(row, c), weight.at(c, target)]);
  const sum = productSum(pairs, bias?.recorded() ? bias.at(0, target) : undefined);
  const plus = bias ? ` + ${biasName}[${target}]` : "";
  return {
    lines: [`Σ_c ${input.name}[${row}][c] · ${weightName}[c][${target}]${plus}`, sum.text],
    operands: [
      {name: input.name, row, column: null, side: "left-operand"},
      {name: weightName, row: null, column: target, side: "right-operand"},
      ...(bias ? [{name: biasName, row: null, column: target, side: "right-operand"}] : []),
    ],
    result: sum.result,
    size: sum.size,
    note: "",
  };
}

function scoresStory(tensor, row, column) {
  const [q, k] = sourcesOf("scores");
  if (!q?.has(row, q.firstColumn) || !k?.has(column, k.firstColumn)) return taken(kNotHere);
  const pairs = range(q.columns).map((d) => [q.at(row, d), k.at(column, d)]);
  const sum = productSum(pairs);
  return {
    lines: [`Σ_d q[${row}][d] · k[${column}][d]`, sum.text],
    operands: [
      {name: "q", row, column: null, side: "left-operand"},
      {name: "k", row: column, column: null, side: "right-operand"},
    ],
    result: sum.result,
    size: sum.size,
    note: "",
  };
}

const kNotHere = "Taken as it is: the step before it is not on this page.";

// Steps that change one number: `change` gives {formula, text, result, note}. What was rounded in a score is small
// beside the largest score, not beside this one: the kernel takes the scale into the sum of products, and rounds anew.
function elementStory(tensor, row, column, change) {
  const [before] = sourcesOf(tensor.name);
  if (!before?.has(row, column)) return taken(kNotHere);
  const value = cellValue(before, row, column);
  const changed = change(value, index(before.name, row, column));
  return {
    lines: [changed.formula, changed.text],
    operands: [{name: before.name, row, column, side: "left-operand"}],
    result: changed.result,
    size: largestOf(tensor),
    note: changed.note ?? "",
  };
}

function scaledStory(tensor, row, column) {
  return elementStory(tensor, row, column, (value, name) => ({
    formula: `${name} · scale`,
    text: `${operand(value)}·${operand(kData.scale)}`,
    result: value * kData.scale,
  }));
}

function cappedStory(tensor, row, column) {
  const found = (kData.options ?? []).map((option) => /soft\s*cap\D*([\d.e+-]+)/i.exec(option)).find(Boolean);
  if (!found) return taken(kNotHere);
  const cap = Number(found[1]);
  return elementStory(tensor, row, column, (value, name) => ({
    formula: `cap · tanh(${name} / cap)`,
    text: `${operand(cap)}·tanh(${operand(value)} / ${operand(cap)})`,
    result: cap * Math.tanh(value / cap),
  }));
}

function biasedStory(tensor, row, column) {
  const now = cellValue(tensor, row, column);
  return elementStory(tensor, row, column, (value, name) => {
    const bias = now - value;
    return {
      formula: `${name} + bias`,
      text: `${operand(value)} + ${operand(bias)}`,
      result: now,
      note: "The bias is read back as the difference of the two steps.",
    };
  });
}

function maskedStory(tensor, row, column) {
  const hidden = !visible(row, column);
  return elementStory(tensor, row, column, (value, name) => ({
    formula: hidden ? `${kMinus}∞, not ${name}` : name,
    text: hidden ? `${kMinus}∞` : operand(value),
    result: hidden ? -Infinity : value,
    note: hidden
      ? `The mask (${kData.mask}) hides key ${column} from query ${row}: ` +
        "its weight is exactly 0, whatever the score."
      : "Visible: the mask lets it pass.",
  }));
}

// Where the weights of a row come from: its visible keys and their scores, all of them on this page.
function visibleScores(row) {
  const [source] = sourcesOf("weights");
  if (!source?.has(row, source.firstColumn) || !source.hasWhole(source.columnAxis)) return undefined;
  const keys = range(source.columns).filter((key) => visible(row, key));
  return {source, keys, scores: keys.map((key) => cellValue(source, row, key))};
}

function weightsStory(tensor, row, column) {
  const from = visibleScores(row);
  if (!visible(row, column)) {
    const rowIsEmpty = from?.keys.length === 0;
    return taken(
      rowIsEmpty
        ? `Query ${row} sees no key at all: its weights are 0 by definition, and its output too.`
        : `Key ${column} is hidden from query ${row}: exactly 0.`,
    );
  }
  if (!from) return taken(kNotHere);
  const score = cellValue(from.source, row, column);
  const operands = [{name: from.source.name, row, column: null, side: "left-operand"}];
  if (kData.normalizer === "sigmoid") {
    const result = 1 / (1 + Math.exp(-score));
    const lines = [`1 / (1 + e^(${kMinus}${index(from.source.name, row, column)}))`, `1 / (1 + e^${operand(-score)})`];
    return {lines, operands: [{...operands[0], column}], result, size: 1, note: ""};
  }
  return softmaxStory(tensor, row, column, from, operands);
}

// e^s / Σ e^s. Where e^s would leave the range that can be read, the row's largest score is taken off first.
function softmaxStory(tensor, row, column, from, operands) {
  const largest = from.scores.reduce((m, s) => Math.max(m, s), -Infinity);
  const shift = Math.abs(largest) > 20 ? largest : 0;
  const power = (s) => Math.exp(s - shift);
  const powers = from.scores.map(power);
  const total = powers.reduce((sum, x) => sum + x, 0);
  const own = power(cellValue(from.source, row, column));
  const sink = sinkPart(tensor, row, total);
  const text = (t) => `e^${operand(from.scores[t] - shift)}`;
  const below = sumText(powers.length, (t) => powers[t], text, kState.digits) + (sink > 0 ? ` + ${operand(sink)}` : "");
  const s =
    shift === 0
      ? `s = row ${row} of ${from.source.name}`
      : `s = row ${row} of ${from.source.name} less its largest, ${operand(shift)}`;
  const formula = sink > 0 ? "e^s / (Σ e^s + e^sink)" : "e^s / Σ e^s";
  return {
    lines: [
      `${formula}, ${s}`,
      `${text(from.keys.indexOf(column))} / (${below})`,
      `${operand(own)} / ${operand(total + sink)}`,
    ],
    operands,
    result: own / (total + sink),
    size: 1,
    note: sink > 0 ? "The sink's e^sink is read back from what the row's weights leave of 1." : "",
  };
}

// What a sink adds to a row's sum: the weights of the keys leave that share of 1.
function sinkPart(tensor, row, total) {
  if (!(kData.options ?? []).some((option) => /sink/i.test(option))) return 0;
  const kept = range(tensor.columns).reduce((sum, key) => sum + tensor.at(row, key), 0);
  return kept > 0 ? Math.max(0, (total * (1 - kept)) / kept) : 0;
}

function droppedStory(tensor, row, column) {
  const [weights] = sourcesOf("dropped");
  if (!weights?.has(row, column)) return taken(kNotHere);
  const before = weights.at(row, column);
  const now = tensor.at(row, column);
  if (now === 0) return taken(before === 0 ? "0 already." : "Dropped: this weight is set to 0 for this step.");
  return {
    lines: [`${index("weights", row, column)} / (1 ${kMinus} p)`, `${operand(before)}·${operand(now / before)}`],
    operands: [{name: "weights", row, column, side: "left-operand"}],
    result: now,
    size: Math.abs(now),
    note: "Kept, and enlarged so that the mean stays.",
  };
}

function headsStory(tensor, row, column) {
  const [weights, v] = sourcesOf("heads");
  if (!weights?.has(row, weights.firstColumn) || !v?.has(v.firstRow, column)) return taken(kNotHere);
  if (!weights.hasWhole(weights.columnAxis) || !v.hasWhole(v.rowAxis)) return taken("Not all keys are on this page.");
  const keys = range(weights.columns).filter((key) => visible(row, key));
  const sum = productSum(keys.map((key) => [weights.at(row, key), v.at(key, column)]));
  const hidden = weights.columns - keys.length;
  return {
    lines: [`Σ_j ${weights.name}[${row}][j] · v[j][${column}]`, sum.text],
    operands: [
      {name: weights.name, row, column: null, side: "left-operand"},
      {name: "v", row: null, column, side: "right-operand"},
    ],
    result: sum.result,
    size: sum.size,
    note:
      hidden === 0 ? "" : `The mask hides ${hidden} of ${weights.columns} keys from query ${row}: they are not read.`,
  };
}

function concatStory(tensor, row, column) {
  const [heads] = sourcesOf("concat");
  const width = heads?.whole(heads.columnAxis) ?? kSizes.d_v;
  const head = Math.floor(column / width);
  const inside = column % width;
  const formula = `heads[${row}][${inside}] of head ${head}`;
  if (!heads?.has(row, inside, head)) return {...taken(""), lines: [formula]};
  const value = heads.at(row, inside, head);
  return {
    lines: [formula, operand(value)],
    operands: head === kState.head ? [{name: "heads", row, column: inside, side: "left-operand"}] : [],
    result: value,
    size: Math.abs(value),
    note: "Side by side: a copy, no arithmetic.",
  };
}

function gradientStory(tensor, row, column) {
  const of = index(tensor.name.replace(/\.grad$/, ""), row, column);
  const error = tensor.entry.finite_difference_error;
  const checked = error === undefined ? "" : ` Finite differences in double differ by at most ${numberText(error, 4)}.`;
  return taken(`Where ${of} grows by a little ε, the loss grows by this number times ε.${checked}`);
}

const kStories = {
  q: project,
  k: project,
  v: project,
  scores: scoresStory,
  scaled: scaledStory,
  capped: cappedStory,
  biased: biasedStory,
  masked: maskedStory,
  weights: weightsStory,
  dropped: droppedStory,
  heads: headsStory,
  concat: concatStory,
  out: project,
};

// The story of cell (row, column), with a remark where the numbers on this page do not give the recorded one.
function storyOf(tensor, row, column) {
  if (tensor.kind === "gradient") return gradientStory(tensor, row, column);
  if (tensor.kind === "parameter") return taken("A parameter: given.");
  if (tensor.kind === "comparison") return taken(tensor.entry.why ?? "");
  const tell = kStories[tensor.name];
  if (!tell) return taken("An input: given.");
  const story = tell(tensor, row, column);
  const value = cellValue(tensor, row, column);
  const bound = 1e-5 * story.size + 1e-30;
  if (story.result !== undefined && Number.isFinite(value) && !(Math.abs(story.result - value) <= bound)) {
    story.note = `These numbers give ${operand(story.result)}; recorded is ${operand(value)}. ${story.note}`.trim();
  }
  return story;
}
