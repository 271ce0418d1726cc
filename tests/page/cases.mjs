// The pages that tests look at, and what tests share: opening, choosing, comparing numbers with those of --json.
import assert from "node:assert/strict";
import {test} from "node:test";
import * as fixtures from "./fixtures.mjs";
import {halfUnit, heed, made, open, pageOf, parsed, valueIn} from "./harness.mjs";

export const examples = heed("attend", "--list")
  .split("\n")
  .map((line) => line.trim().split(/\s/)[0])
  .filter((word) => /^[a-z-]+$/.test(word));
export const kCases = {
  ...Object.fromEntries(examples.map((name) => [name, () => made("--example", name)])),
  "soft cap and ALiBi": () => made("--example", "two-heads", "--softcap", "0.2", "--alibi"),
  "some rows of a head": () => made("--example", "eight-heads", "--causal", "--rows", "1:3", "--head", "5"),
  "some steps": () => made("--example", "two-heads", "--step", "masked,weights,out"),
  ...Object.fromEntries(
    ["grouped", "optioned", "hostile", "broken", "large", "part"].map((name) => [name, () => pageOf(fixtures[name]())]),
  ),
};
const cache = new Map();
const caseOf = (name) => cache.get(name) ?? cache.set(name, kCases[name]()).get(name);

// A test with a page: opened, used, closed.
export function pageTest(title, body) {
  test(title, {timeout: 120000}, async () => {
    const opened = [];
    try {
      await body(async (name, options) => {
        const each = typeof name === "string" ? caseOf(name) : name;
        opened.push(await open(each, options));
        return {...opened.at(-1), data: each.data};
      });
    } finally {
      for (const each of opened) await each.close();
    }
  });
}

// Chooses an item and a head where the page offers it.
export async function choose(page, label, value) {
  const select = page.locator("#controls label", {hasText: label}).locator("select");
  if (await select.count()) await select.selectOption(String(value));
}

export function checkNumber(data, cell, item, head, digits) {
  const where = `${data.title}: ${cell.name}[${cell.row}][${cell.column}] item ${item} head ${head}: ${cell.text}`;
  const value = valueIn(data, cell, item, head);
  if (cell.hidden && cell.name === "masked") return assert.equal(cell.text, "−∞", where);
  if (value === null) return assert.ok(cell.text === "NaN" || (cell.hidden && cell.text === "−∞"), where);
  assert.ok(Math.abs(parsed(cell.text) - value) <= halfUnit(cell.text) * (1 + 1e-6), `${where}, recorded ${value}`);
  if (value !== 0) assert.notEqual(parsed(cell.text), 0, `${where}: not 0 but looks like it`);
  if (!cell.text.includes("e") && value !== 0) assert.equal(cell.text.split(".")[1]?.length, digits, where);
}

// The recorded indices along a dimension, at most two.
export function recorded(data, dim, whole) {
  const step = data.steps.find(({dims, of}) => dims.includes(dim) && of[dims.indexOf(dim)] === whole);
  if (!step) return [0];
  const axis = step.dims.indexOf(dim);
  return [...new Set([step.first[axis], step.first[axis] + step.shape[axis] - 1])];
}
