"use strict";

// Numbers as text, sums as text, colours of numbers.

const kMinus = "\u2212";

// `digits` decimals; exactly 0 as "0"; very large and very small numbers with an exponent, so that none looks like 0.
function numberText(x, digits) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x < 0 ? kMinus + "∞" : "∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text = size >= 1e6 || size < 10 ** -digits ? x.toExponential(2) : x.toFixed(digits);
  return text.replaceAll("-", kMinus).replace("e+", "e");
}

// An operand: at least two decimals and three significant digits more than the cells have decimals, without trailing
// zeros, so that a sum comes out as the cell has it.
function operandText(x, digits) {
  if (!Number.isFinite(x)) return x < 0 ? `(${kMinus}∞)` : numberText(x, digits);
  const cut = Math.abs(x) < 1 ? x.toPrecision(digits + 3) : x.toFixed(digits + 2);
  const text = String(Number(cut)).replaceAll("-", kMinus).replace("e+", "e");
  return x < 0 ? `(${text})` : text;
}

// Terms joined by +: all where they are few, otherwise the first three, the last, and the rest as one number.
// value(t) and text(t) tell of term t.
function sumText(count, value, text, digits) {
  const kAll = 8;
  const kFirst = 3;
  if (count === 0) return "0";
  if (count <= kAll) return Array.from({length: count}, (_, t) => text(t)).join(" + ");
  let rest = 0;
  for (let t = kFirst; t < count - 1; ++t) rest += value(t);
  const first = Array.from({length: kFirst}, (_, t) => text(t)).join(" + ");
  const between = `[… ${count - 1 - kFirst} terms: ${operandText(rest, digits)} …]`;
  return `${first} + ${between} + ${text(count - 1)}`;
}

// The ends of the colour scales as [light, dark]; 0 is the page's own background. They stay so far from the colour of
// the text, black or white, that its contrast is at least 4.5 : 1 anywhere on a scale.
const kZero = [
  [255, 255, 255],
  [23, 26, 32],
];
const kPositive = [
  [236, 122, 28],
  [184, 90, 0],
];
const kNegative = [
  [78, 146, 228],
  [31, 111, 196],
];
const kShare = [
  [38, 166, 150],
  [13, 127, 114],
];

// The background of x on a scale that ends at `largest`, for light and for dark.
function heat(x, largest, signed) {
  const t = largest > 0 ? Math.min(1, Math.abs(x) / largest) ** 0.8 : 0;
  const ends = !signed ? kShare : x < 0 ? kNegative : kPositive;
  const colours = ends.map((end, theme) =>
    kZero[theme].map((zero, channel) => Math.round(zero + (end[channel] - zero) * t)),
  );
  return `light-dark(${colours.map((colour) => `rgb(${colour.join(",")})`).join(", ")})`;
}
