// The page of `heed attend --html` in headless Chromium.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";
import {checkNumber, choose, examples, kCases, pageTest, recorded} from "./cases.mjs";
import * as fixtures from "./fixtures.mjs";
import {
  axeSource,
  cells,
  cellSelector,
  evaluated,
  halfUnit,
  made,
  pageOf,
  parsed,
  start,
  stop,
  stories,
} from "./harness.mjs";
import "./product_test.mjs";

before(start);
after(stop);

test("the examples are found", () =>
  assert.ok(examples.includes("self") && examples.includes("two-heads"), examples.join()));

// Every line of arithmetic of these cells gives the number in the cell. Gathers the steps that had such a line.
async function checkStories(page, name, wanted) {
  const told = await stories(page, wanted);
  return told.flatMap((story, at) => {
    const cell = wanted[at];
    const where = `${name}: ${story.cell} = ${story.lines.join(" = ")} = ${story.total}`;
    assert.equal(story.total, cell.text, where);
    assert.ok(story.cell.startsWith(`${cell.name}[${cell.row}][${cell.column}]`), where);
    assert.doesNotMatch(story.note, /These numbers give/, where);
    const values = story.lines.map(evaluated).filter((value) => value !== undefined && cell.text !== "NaN");
    for (const value of values) {
      const bound = 1.02 * halfUnit(cell.text) + 2.5e-7 * Math.abs(value);
      assert.ok(value === parsed(cell.text) || Math.abs(value - parsed(cell.text)) <= bound, `${where}: ${value}`);
    }
    return values.length > 0 ? [cell.name] : [];
  });
}

const sums = new Set(); // steps whose arithmetic was evaluated
for (const name of Object.keys(kCases)) {
  pageTest(
    `${name}: no error, no request; numbers are those of --json; arithmetic gives them; 320 pixels are enough`,
    async (opening) => {
      const {page, troubles, data} = await opening(name);
      assert.equal(await page.locator("h1").textContent(), data.title);
      assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 4000);
      for (const item of recorded(data, "B", data.sizes.batch)) {
        await choose(page, "batch item", item);
        for (const head of recorded(data, "H", data.sizes.heads)) {
          await choose(page, "head", head);
          await choose(page, "digits", 4);
          const shown = await cells(page);
          assert.ok(shown.length >= data.steps.length);
          for (const cell of shown) checkNumber(data, cell, item, head, 4);
          const steps = shown.filter((cell) => data.steps.some((step) => step.name === cell.name));
          const apart = Math.ceil(steps.length / 90); // about 90 cells, spread over all steps
          const some = steps.filter((_, at) => at % apart === 0);
          for (const step of await checkStories(page, name, some)) sums.add(step);
          await choose(page, "digits", 7);
          for (const cell of await cells(page)) checkNumber(data, cell, item, head, 7);
        }
      }
      await page.setViewportSize({width: 320, height: 640});
      assert.equal(
        await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
        0,
      );
      assert.deepEqual(troubles, []);
    },
  );
}

test("every step was told as a sum somewhere", () => {
  for (const step of ["q", "k", "v", "scores", "scaled", "capped", "biased", "weights", "dropped", "heads", "out"])
    assert.ok(sums.has(step), step);
});

pageTest("hidden cells are those that visible says, hatched, −∞ in masked and 0 in weights", async (opening) => {
  for (const each of ["masked", "part", "broken"]) {
    const {page, data} = await opening(each);
    const step = data.steps.find(({name}) => name === "weights");
    const head = step.first[1];
    for (const cell of (await cells(page)).filter(({name}) => name === "masked" || name === "weights")) {
      const seen = data.visible[0][head - step.first[1]][cell.row - step.first[2]][cell.column];
      assert.equal(cell.hidden, seen === 0);
      if (cell.hidden) assert.equal(cell.text, cell.name === "masked" ? "−∞" : "0");
    }
  }
});

pageTest(
  "the arithmetic of q[1][2] of the example self is the one on paper, and its operands are marked",
  async (opening) => {
    const {page} = await opening("self");
    await page.locator(cellSelector("q", 1, 2)).click();
    const lines = await page.locator("#arithmetic .line").allTextContents();
    assert.deepEqual(lines, ["Σ_c x[1][c] · W_Q[c][2]", "0.4·0.5 + (−1.1)·(−0.29) + (−0.3)·(−0.56)", "0.6870"]);
    const marked = (kind) =>
      page.evaluate(
        (name) =>
          [...document.querySelectorAll(`td.${name}`)].map(
            (cell) =>
              `${cell.closest("figure").dataset.name ?? "copy of " + cell.closest("figure").dataset.copy} ` +
              `${cell.dataset.row} ${cell.dataset.column}`,
          ),
        kind,
      );
    assert.deepEqual(await marked("left-operand"), ["copy of x 1 0", "copy of x 1 1", "copy of x 1 2"]);
    assert.deepEqual(await marked("right-operand"), ["W_Q 0 2", "W_Q 1 2", "W_Q 2 2"]);
    assert.deepEqual(await marked("chosen"), ["q 1 2"]);
  },
);

pageTest("rows that are not finite are counted before every other check", async (opening) => {
  const data = fixtures.broken();
  data.checks = {rows_nonfinite: 2, first_row_nonfinite: "row 1", rows_shown: 3, ...data.checks};
  const {page} = await opening(pageOf(data));
  const section = page.locator("section", {has: page.locator("h2", {hasText: "Checks"})});
  assert.match(await section.innerText(), /^Checks\s+2 of 3 rows are not finite \(NaN or ∞\): the first is row 1\./);
  assert.equal(await (await opening("self")).page.locator(".warning").count(), 0);
});

pageTest("a number that its operands do not give is said to be so", async (opening) => {
  const data = fixtures.grouped();
  data.steps.find(({name}) => name === "scores").data[0][0][0][0] += 0.25;
  const {page} = await opening(pageOf(data));
  const [story] = await stories(page, [{name: "scores", row: 0, column: 0}]);
  assert.match(story.note, /These numbers give/);
});

pageTest("each matrix is one tab stop; arrow keys, Home and End move inside and the panel follows", async (opening) => {
  const {page, troubles} = await opening("self");
  const stops = await page.evaluate(() =>
    [...document.querySelectorAll("figure")].map((each) => each.querySelectorAll('td[tabindex="0"]').length),
  );
  assert.ok(stops.length > 10 && stops.every((count) => count === 1), stops.join());
  const at = () =>
    page.evaluate(() =>
      [
        document.activeElement.closest("figure").dataset.name,
        document.activeElement.dataset.row,
        document.activeElement.dataset.column,
      ].join(" "),
    );
  await page.locator(cellSelector("W_Q", 0, 0)).focus();
  const moves = [
    ["ArrowRight", "0 1"],
    ["ArrowDown", "1 1"],
    ["End", "1 2"],
    ["ArrowRight", "1 2"],
    ["Home", "1 0"],
    ["Control+End", "2 2"],
    ["ArrowUp", "1 2"],
    ["ArrowLeft", "1 1"],
    ["Control+Home", "0 0"],
    ["PageDown", "2 0"],
  ];
  for (const [key, place] of moves) {
    await page.keyboard.press(key);
    assert.equal(await at(), `W_Q ${place}`, key);
    assert.equal(await page.locator("#arithmetic .cell").textContent(), `W_Q[${place.replace(" ", "][")}]`);
  }
  await page.keyboard.press("Tab");
  assert.match(await at(), /^q /);
  assert.equal(await page.locator("#arithmetic").getAttribute("aria-live"), "polite");
  assert.deepEqual(troubles, []);
});

pageTest(
  "a large matrix shows a window and its corners; keys, slider and operands move the window",
  async (opening) => {
    const {page} = await opening("large");
    const rows = () =>
      page.evaluate(() =>
        [...document.querySelectorAll('figure[data-name="weights"] tbody th')].map((each) => each.textContent),
      );
    assert.deepEqual(await rows(), ["0", "1", "2", "3", "4", "5", "6", "7", "⋮", "99"]);
    await page.locator(cellSelector("weights", 7, 0)).focus();
    await page.keyboard.press("ArrowDown");
    assert.equal(await page.evaluate(() => document.activeElement.dataset.row), "8");
    assert.deepEqual(await rows(), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "⋮", "99"]);
    await page.keyboard.press("PageDown");
    assert.deepEqual(await rows(), ["0", "⋮", "9", "10", "11", "12", "13", "14", "15", "16", "⋮", "99"]);
    await page.keyboard.press("Control+End");
    assert.equal(
      await page.evaluate(() => `${document.activeElement.dataset.row} ${document.activeElement.dataset.column}`),
      "99 99",
    );
    await page.locator('figure[data-name="weights"] .sliders input').first().fill("50");
    assert.deepEqual(await rows(), ["0", "⋮", "50", "51", "52", "53", "54", "55", "56", "57", "⋮", "99"]);
    // The operands of weights[50] are brought into sight.
    await stories(page, [{name: "weights", row: 50, column: 0}]);
    assert.equal(await page.locator(cellSelector("scaled", 50, 0)).count(), 1);
  },
);

pageTest("tokens, title and notes that look like markup stay text", async (opening) => {
  const {page, troubles, data} = await opening("hostile");
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("img, #main script, iframe, a").count(), 0);
  assert.equal(await page.evaluate(() => document.scripts.length), 3); // the data, the table of steps, the page's own
  assert.equal(await page.locator("#notes li").first().textContent(), data.notes[0]);
  assert.deepEqual(troubles, []);
});

pageTest("the policy of the page stops any other script and any request", async (opening) => {
  const {page} = await opening("self");
  const outcome = await page.evaluate(async () => {
    document.body.append(Object.assign(document.createElement("script"), {textContent: "window.hacked = 1"}));
    const refused = await fetch("data:text/plain,x").then(
      () => false,
      () => true,
    );
    return {hacked: window.hacked, refused};
  });
  assert.deepEqual(outcome, {hacked: undefined, refused: true});
});

// Contrast as WCAG defines it, of every cell's text on its colour, and the colour of the page itself.
const contrasts = (page) =>
  page.evaluate(() => {
    const luminance = (text) => {
      const [r, g, b] = text
        .match(/[\d.]+/g)
        .slice(0, 3)
        .map((x) => x / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = getComputedStyle(document.body).backgroundColor;
    const all = [...document.querySelectorAll("td[data-row]:not(.hidden)")].map((cell) => {
      const style = getComputedStyle(cell);
      const clear = style.backgroundColor.endsWith(", 0)");
      const [a, b] = [luminance(style.color), luminance(clear ? ground : style.backgroundColor)].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    });
    return {
      ground,
      least: Math.min(...all),
      colours: new Set(
        [...document.querySelectorAll("td[data-row]")].map((cell) => getComputedStyle(cell).backgroundColor),
      ).size,
    };
  });

pageTest(
  "light and dark: by the system and by the reader's choice, with contrast of at least 4.5 in every cell",
  async (opening) => {
    const grounds = {};
    for (const colorScheme of ["light", "dark"]) {
      for (const each of ["masked", "broken", "grouped"]) {
        const {page} = await opening(each, {colorScheme});
        const seen = await contrasts(page);
        assert.ok(seen.least >= 4.5, `${colorScheme}: ${seen.least}`);
        assert.ok(seen.colours > 10);
        grounds[colorScheme] = seen.ground;
        const other = colorScheme === "light" ? "dark" : "light";
        await choose(page, "theme", other);
        grounds[`chosen ${other}`] = (await contrasts(page)).ground;
      }
    }
    assert.notEqual(grounds.light, grounds.dark);
    assert.equal(grounds["chosen light"], grounds.light);
    assert.equal(grounds["chosen dark"], grounds.dark);
  },
);

for (const [name, options] of [
  ["two-heads", {colorScheme: "light"}],
  ["three-masks", {colorScheme: "dark", viewport: {width: 320, height: 640}}],
]) {
  pageTest(`no rule of axe is broken: ${name}, ${options.colorScheme}`, async (opening) => {
    const {page} = await opening(name, options);
    await page.evaluate(axeSource);
    const found = await page.evaluate(() => globalThis.axe.run({resultTypes: ["violations"]}));
    assert.deepEqual(
      found.violations.map(({id, nodes}) => `${id}: ${nodes[0].html}`),
      [],
    );
  });
}

pageTest("on paper: light, coloured, nothing cut off by a box that scrolls", async (opening) => {
  for (const each of ["two-heads", "large"]) {
    const {page} = await opening(each, {colorScheme: "dark", viewport: {width: 718, height: 1000}});
    await page.emulateMedia({media: "print", colorScheme: "dark"});
    const seen = await contrasts(page);
    assert.equal(seen.ground, "rgb(255, 255, 255)");
    assert.ok(seen.colours > 10 && seen.least >= 4.5);
    const outside = await page.evaluate(
      () =>
        [...document.querySelectorAll(".scroll")].filter(
          (box) =>
            getComputedStyle(box).overflowX !== "visible" || box.firstChild.getBoundingClientRect().right > innerWidth,
        ).length,
    );
    assert.equal(outside, 0);
    assert.equal(await page.locator("#controls").isVisible(), false);
    assert.equal((await page.pdf({format: "A4"})).subarray(0, 5).toString(), "%PDF-");
  }
});

pageTest("forced colours keep frames and hatching; reduced motion does not scroll smoothly", async (opening) => {
  const {page} = await opening("masked", {forcedColors: "active", reducedMotion: "reduce"});
  const style = (selector, key) =>
    page.evaluate(([s, k]) => getComputedStyle(document.querySelector(s))[k], [selector, key]);
  assert.match(await style("td.hidden", "backgroundImage"), /gradient/);
  assert.equal(await style("td.chosen", "outlineStyle"), "solid");
  assert.equal(await style("html", "scrollBehavior"), "auto");
});

pageTest("without JavaScript the page says what it is and what to do", async (opening) => {
  const {page} = await opening("self", {javaScriptEnabled: false});
  assert.match(await page.locator("#alone").innerText(), /JavaScript.*heed attend/);
  assert.equal(await page.locator("#page").isVisible(), false);
});

pageTest("three ways to mask stand side by side with their row sums and what is wrong", async (opening) => {
  const {page, data} = await opening("three-masks");
  const texts = await page.locator("figure.comparison").allInnerTexts();
  data.comparisons.forEach((comparison, at) => {
    assert.ok(texts[at].includes(comparison.title) && texts[at].includes(comparison.why));
    assert.ok(texts[at].includes(comparison.right ? "right" : "wrong"));
    const sums = texts[at]
      .match(/row sums: (.*)/)[1]
      .split(", ")
      .map(parsed);
    comparison.row_sums.forEach((sum, row) => assert.ok(Math.abs(sum - sums[row]) <= 5.01e-5));
  });
  const tops = await page.evaluate(() =>
    [...document.querySelectorAll("figure.comparison")].slice(0, 3).map((each_) => each_.getBoundingClientRect().top),
  );
  assert.ok(new Set(tops).size === 1, tops.join());
});

pageTest("gradients and top keys are shown where they were asked for", async (opening) => {
  const {page, data} = await opening(made("--example", "self", "--grad", "--top-k", "2"));
  const names = new Set((await cells(page)).map(({name}) => name));
  assert.ok(data.gradients.length > 0);
  for (const {name} of data.gradients) assert.ok(names.has(name), name);
  const rows = await page.locator("table.plain tbody tr").count();
  assert.equal(rows, data.top_keys.length);
});
