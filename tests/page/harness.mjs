// Opens pages in headless Chromium and reads them. The environment names what tools/check found: HEED (the binary),
// HEED_CHROMIUM, HEED_PAGE_MODULES (the folder with node_modules).
import {execFileSync} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {createRequire} from "node:module";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {pathToFileURL} from "node:url";

const require = createRequire(join(process.env.HEED_PAGE_MODULES, "/"));
const {chromium} = require("playwright-core");
export const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const folder = mkdtempSync(join(tmpdir(), "heed-page-"));
let browser;
export async function start() {
  browser = await chromium.launch({executablePath: process.env.HEED_CHROMIUM, args: ["--no-sandbox"]});
}
export async function stop() {
  await browser?.close();
  rmSync(folder, {recursive: true});
}

export const heed = (...words) => execFileSync(process.env.HEED, words, {encoding: "utf8", maxBuffer: 1 << 28});

// The page and the document of `heed attend` with these words.
let count = 0;
export function made(...words) {
  const file = join(folder, `${++count}.html`);
  heed("attend", ...words, "--html", file);
  return {file, data: JSON.parse(heed("attend", ...words, "--json"))};
}

// The page with another document in it: what attend_page would make of it (tests/explain/page_test.cpp).
let template;
export function pageOf(data) {
  template ??= readFileSync(made("--example", "self").file, "utf8");
  const begin = template.indexOf('id="data">') + 'id="data">'.length;
  const end = template.indexOf("</script>", begin);
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  const file = join(folder, `${++count}.html`);
  writeFileSync(file, template.slice(0, begin) + json + template.slice(end));
  return {file, data};
}

// Opens a page from disk: in one tab that all tests share, or with `options` in a context of its own. `troubles`
// gathers errors, warnings, and every request but the one for the file itself.
let shared;
export async function open({file}, options) {
  const tab = options ? await newTab(options) : (shared ??= await newTab({}));
  tab.address = pathToFileURL(file).href;
  tab.troubles = [];
  await tab.page.setViewportSize(options?.viewport ?? {width: 1280, height: 900});
  await tab.page.goto(tab.address);
  return {page: tab.page, troubles: tab.troubles, close: () => (options ? tab.context.close() : undefined)};
}
async function newTab(options) {
  const context = await browser.newContext(options);
  const tab = {context, page: await context.newPage()};
  tab.page.on("console", (message) => tab.troubles.push(`${message.type()}: ${message.text()}`));
  tab.page.on("pageerror", (error) => tab.troubles.push(`error: ${error.message}`));
  tab.page.on("request", (request) => request.url() === tab.address || tab.troubles.push(`request: ${request.url()}`));
  return tab;
}

// Every drawn cell as {name, row, column, text, hidden}.
export const cells = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("figure[data-name] td[data-row]")].map((cell) => ({
      name: cell.closest("figure").dataset.name,
      row: Number(cell.dataset.row),
      column: Number(cell.dataset.column),
      text: cell.textContent,
      hidden: cell.classList.contains("hidden"),
    })),
  );

export const cellSelector = (name, row, column) =>
  `figure[data-name="${name}"] td[data-row="${row}"][data-column="${column}"]`;

// What the panel says when each of these cells gets the focus: {lines, total, note}.
export const stories = (page, wanted) =>
  page.evaluate(
    (selectors) =>
      selectors.map((selector) => {
        document.querySelector(selector).focus();
        const texts = (query) => [...document.querySelectorAll(`#arithmetic ${query}`)].map((each) => each.textContent);
        return {
          lines: texts(".line:not(.total)"),
          total: texts(".total")[0],
          note: texts(".note")[0] ?? "",
          cell: texts(".cell")[0],
        };
      }),
    wanted.map((cell) => cellSelector(cell.name, cell.row, cell.column)),
  );

// The number in a document that belongs to a cell, by the names of its axes; null where it is not finite.
export function valueIn(data, {name, row, column}, item, head) {
  const lists = [data.steps, data.parameters ?? [], data.gradients ?? []];
  const entry = lists.flat().find((each) => each.name === name) ?? data.comparisons[Number(name.split(" ")[1]) - 1];
  const dims = entry.dims ?? entry.shape.map(() => "");
  const free = dims.map((dim, axis) => axis).filter((axis) => !["B", "H", "Hkv"].includes(dims[axis]));
  return dims.reduce((part, dim, axis) => {
    const heads = (entry.of ?? entry.shape)[axis];
    const whole =
      dim === "B"
        ? item
        : dim === "H" || dim === "Hkv"
          ? Math.floor((head * heads) / data.sizes.heads)
          : axis === free.at(-1)
            ? column
            : row;
    return part[whole - (entry.first?.[axis] ?? 0)];
  }, entry.data);
}

// A shown number as a number.
export const parsed = (text) => Number(text.replaceAll("−", "-").replace("∞", "Infinity"));

// Half a unit of the last digit that a text shows.
export function halfUnit(text) {
  const [mantissa, exponent = "0"] = text.replaceAll("−", "-").split("e");
  return 0.5 * 10 ** (Number(exponent) - (mantissa.split(".")[1] ?? "").length);
}

// The value of a line of arithmetic, or undefined where the line is a formula in names.
export function evaluated(line) {
  const code = line
    .replaceAll("−", "-")
    .replaceAll("·", "*")
    .replace(/\[… \d+ terms: (\S+) …\]/g, "($1)")
    .replace(/e\^(\([^()]*\)|[\d.e-]+)/g, "Math.exp($1)")
    .replaceAll("tanh", "Math.tanh");
  if (!/^[\d\s.e+*/()-]*$/.test(code.replace(/Math\.(exp|tanh)/g, "").replaceAll("NaN", "0"))) return undefined;
  return Function(`"use strict"; return (${code});`)();
}
