// Documents as `heed attend --json` prints them, computed here in plain loops: cases that no built-in example has
// (hostile tokens, NaN, several items, shared key/value heads, parts of a tensor, large matrices).

const range = (count) => Array.from({length: count}, (_, i) => i);

// A number in [-1, 1) from any integer, rounded to f32.
const draw = (seed) => {
  const x = Math.sin(seed * 12.9898 + 78.233) * 43758.5453;
  return Math.fround(2 * (x - Math.floor(x)) - 1);
};
export const drawn = (seed, ...shape) =>
  shape.length === 0 ? draw(seed) : range(shape[0]).map((i) => drawn(seed * 31 + i + 1, ...shape.slice(1)));

const sum = (values) => values.reduce((total, x) => total + x, 0);
const dot = (a, b) => Math.fround(sum(a.map((x, i) => x * b[i])));
const shapeOf = (data) => (Array.isArray(data) ? [data.length, ...(data.length ? shapeOf(data[0]) : [])] : []);

// Heads of width D from rows of H · D numbers: [B,T,H·D] to [B,T,H,D].
const split = (rows, heads) =>
  rows.map((item) =>
    item.map((row) => range(heads).map((h) => row.slice((h * row.length) / heads, ((h + 1) * row.length) / heads))),
  );

const project = (rows, weight, bias) => {
  const columns = weight[0].map((_, j) => weight.map((row) => row[j]));
  return rows.map((item) =>
    item.map((row) => columns.map((column, j) => Math.fround(dot(row, column) + (bias?.[j] ?? 0)))),
  );
};

function softmax(scores, seen, sink) {
  const largest = Math.max(...scores.filter((_, j) => seen[j]));
  const powers = scores.map((s, j) => (seen[j] ? Math.exp(s - largest) : 0));
  const total = sum(powers) + (sink === undefined ? 0 : Math.exp(sink - largest));
  return powers.map((p, j) => (seen[j] ? Math.fround(p / total) : 0));
}

// {x [B,Tq,C], context, heads, kvHeads, W_Q, W_K, W_V, W_O, b_Q, …, sees(b, h, i, j), tokens, title, notes,
//  cap, bias(h, i, j), sink: logits [H], drop(i, j): is the weight dropped, with p = 0.5}
export function attend(given) {
  const {heads = 1, kvHeads = heads, sees = () => true} = given;
  const context = given.context ?? given.x;
  const q = split(project(given.x, given.W_Q, given.b_Q), heads);
  const k = split(project(context, given.W_K, given.b_K), kvHeads);
  const v = split(project(context, given.W_V, given.b_V), kvHeads);
  const dk = q[0][0][0].length;
  const dv = v[0][0][0].length;
  const scale = Math.fround(1 / Math.sqrt(dk));
  const kv = (h) => Math.floor((h * kvHeads) / heads);
  const each = (make) =>
    q.map((item, b) => range(heads).map((h) => item.map((_, i) => k[b].map((__, j) => make(b, h, i, j)))));
  const scores = each((b, h, i, j) => dot(q[b][i][h], k[b][j][kv(h)]));
  const scaled = each((b, h, i, j) => Math.fround(scores[b][h][i][j] * scale));
  const visible = each((b, h, i, j) => (sees(b, h, i, j) ? 1 : 0));
  const hides = visible.flat(3).includes(0);
  const capped = given.cap
    ? each((b, h, i, j) => Math.fround(given.cap * Math.tanh(scaled[b][h][i][j] / given.cap)))
    : scaled;
  const biased = given.bias ? each((b, h, i, j) => Math.fround(capped[b][h][i][j] + given.bias(h, i, j))) : capped;
  const masked = each((b, h, i, j) => (visible[b][h][i][j] ? biased[b][h][i][j] : null));
  const weights = biased.map((item, b) =>
    item.map((head, h) => head.map((row, i) => softmax(row, visible[b][h][i], given.sink?.[h]))),
  );
  const dropped = given.drop ? each((b, h, i, j) => (given.drop(i, j) ? 0 : 2 * weights[b][h][i][j])) : weights;
  const mean = (b, h, i, d) =>
    Math.fround(sum(dropped[b][h][i].map((w, j) => (visible[b][h][i][j] ? w * v[b][j][kv(h)][d] : 0))));
  const out = q.map((item, b) => item.map((_, i) => range(heads).map((h) => range(dv).map((d) => mean(b, h, i, d)))));
  const concat = out.map((item) => item.map((token) => token.flat()));

  const step = (n, name, formula, dims, data) => {
    const nulls = JSON.parse(JSON.stringify(data));
    const nonfinite = nulls.flat(9).filter((x) => x === null).length;
    return {
      n,
      name,
      formula,
      dims,
      shape: shapeOf(data),
      first: dims.map(() => 0),
      of: shapeOf(data),
      data: nulls,
      nonfinite,
    };
  };
  const steps = [
    step(0, "x", "x", ["B", "Tq", "C"], given.x),
    ...(given.context ? [step(0, "context", "context", ["B", "Tk", "C"], given.context)] : []),
    step(1, "q", "q = x W_Q", ["B", "Tq", "H", "Dk"], q),
    step(1, "k", "k = context W_K", ["B", "Tk", "Hkv", "Dk"], k),
    step(1, "v", "v = context W_V", ["B", "Tk", "Hkv", "Dv"], v),
    step(3, "scores", "scores = q kᵀ", ["B", "H", "Tq", "Tk"], scores),
    step(3, "scaled", "scaled = scale · scores", ["B", "H", "Tq", "Tk"], scaled),
    ...(given.cap ? [step(3, "capped", "capped = cap · tanh(scaled / cap)", ["B", "H", "Tq", "Tk"], capped)] : []),
    ...(given.bias ? [step(3, "biased", "biased = capped + bias", ["B", "H", "Tq", "Tk"], biased)] : []),
    ...(hides ? [step(3, "masked", "masked = −∞ where hidden", ["B", "H", "Tq", "Tk"], masked)] : []),
    step(3, "weights", "weights = softmax(masked)", ["B", "H", "Tq", "Tk"], weights),
    ...(given.drop ? [step(3, "dropped", "dropped = weights / (1 − p) or 0", ["B", "H", "Tq", "Tk"], dropped)] : []),
    step(4, "heads", "heads = weights v", ["B", "Tq", "H", "Dv"], out),
    step(6, "concat", "concat = heads side by side", ["B", "Tq", "H·Dv"], concat),
    step(7, "out", "out = concat W_O", ["B", "Tq", "C_out"], project(concat, given.W_O, given.b_O)),
  ];
  const names = ["W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"].filter((name) => given[name]);
  return {
    schema: "heed/attend@1",
    title: given.title ?? "a case of the page's tests",
    notes: given.notes ?? [],
    sizes: {batch: q.length, queries: q[0].length, keys: k[0].length, heads, kv_heads: kvHeads, d_k: dk, d_v: dv},
    scale,
    mask: hides ? "causal" : "none",
    normalizer: "softmax",
    ...(given.options ? {options: given.options} : {}),
    ...(given.tokens ? {tokens: given.tokens} : {}),
    parameters: names.map((name) => ({name, shape: shapeOf(given[name]), data: given[name]})),
    steps,
    ...(hides ? {visible} : {}),
    checks: {row_sum_max_err: 6e-8, visible_pairs: visible.flat(3).filter(Boolean).length, rows_without_key: 0},
    plan: {isa: "avx2", threads: 2},
  };
}

const layer = (seed, width, heads, kvHeads, dk, dv) => ({
  heads,
  kvHeads,
  W_Q: drawn(seed, width, heads * dk),
  W_K: drawn(seed + 1, width, kvHeads * dk),
  W_V: drawn(seed + 2, width, kvHeads * dv),
  W_O: drawn(seed + 3, heads * dv, width),
});

// Two items, four query heads on two key/value heads, causal, biases; the second item's key 1 is hidden everywhere.
export const grouped = () =>
  attend({
    ...layer(1, 6, 4, 2, 3, 2),
    x: drawn(9, 2, 3, 6),
    b_Q: drawn(11, 12),
    b_O: drawn(12, 6),
    sees: (b, h, i, j) => j <= i && !(b === 1 && j === 1),
    title: "grouped heads",
  });

// Every score option at once: soft cap, bias, sink, dropout.
export const optioned = () =>
  attend({
    ...layer(13, 6, 2, 2, 3, 3),
    x: drawn(14, 1, 4, 6),
    sees: (b, h, i, j) => j <= i,
    title: "every option",
    cap: 1.5,
    bias: (h, i, j) => -0.25 * (h + 1) * Math.abs(i - j),
    sink: [0.5, -1],
    drop: (i, j) => (i + j) % 3 === 1,
    options: ["soft cap 1.5", "ALiBi", "sinks", "dropout 0.5"],
  });

// Tokens and texts that try to become markup.
const kHostile = [
  "</script><script>window.hacked=1</script>",
  "<img src=x onerror=window.hacked=1>",
  "<!--<script>",
  "\u202Eevil\n\t",
  "",
];
export const hostile = () =>
  attend({
    ...layer(2, 4, 1, 1, 2, 2),
    x: drawn(3, 1, 5, 4),
    tokens: {query: kHostile, key: kHostile},
    title: kHostile[0],
    notes: [kHostile[1], "javascript:alert(1)"],
  });

// NaN in the value of key 1, which queries 1 and 2 see; query 0 sees no key at all.
export const broken = () => {
  const x = drawn(5, 1, 3, 3);
  x[0][1][0] = NaN;
  return attend({...layer(4, 3, 1, 1, 3, 3), x, sees: (b, h, i, j) => i > 0 && j <= i, title: "NaN inside"});
};

// 100 tokens, 2 heads 40 wide: nothing fits on a screen.
export const large = () => attend({...layer(6, 80, 2, 2, 40, 40), x: drawn(7, 1, 100, 80), title: "100 tokens"});

// Rows 4 … 5 of head 1 alone, as --rows 4:6 --head 1 records them; k and v of that head whole.
export const part = () => {
  const whole = attend({
    ...layer(8, 6, 2, 2, 3, 3),
    x: drawn(10, 1, 8, 6),
    sees: (b, h, i, j) => j <= i,
    title: "rows 4:6 of head 1",
  });
  const cut = (data, dims) => {
    const slice = (part_, axis) => {
      if (axis === dims.length) return part_;
      const kept =
        dims[axis] === "Tq"
          ? part_.slice(4, 6)
          : dims[axis] === "H" || dims[axis] === "Hkv"
            ? part_.slice(1, 2)
            : part_;
      return kept.map((inner) => slice(inner, axis + 1));
    };
    return slice(data, 0);
  };
  for (const step of whole.steps) {
    step.data = cut(step.data, step.dims);
    step.shape = shapeOf(step.data);
    step.first = step.dims.map((dim) => (dim === "Tq" ? 4 : dim === "H" || dim === "Hkv" ? 1 : 0));
  }
  whole.visible = cut(whole.visible, ["B", "H", "Tq", "Tk"]);
  return whole;
};
