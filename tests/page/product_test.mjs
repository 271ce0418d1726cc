// Products on the page: drawn whole, their factors with the right numbers and marks. Run by page_test.mjs.
import assert from "node:assert/strict";
import {checkNumber, pageTest, recorded} from "./cases.mjs";
import {cellSelector} from "./harness.mjs";

// Each product as it is drawn: "x · W_Q = q". Figures by name; ᵀ where rows and columns are exchanged.
const equations = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll(".step .matrices")].flatMap((row) => {
      const terms = [...row.querySelectorAll(".term")].map((term) => {
        const sign = term.querySelector(".sign")?.textContent;
        return `${sign ? `${sign} ` : ""}${term.querySelector("figcaption code").textContent}`;
      });
      return terms.length > 1 ? [terms.join(" ")] : [];
    }),
  );

pageTest("every product is drawn with all its factors", async (opening) => {
  const expected = {
    self: ["x · W_Q = q", "x · W_K = k", "x · W_V = v", "q · kᵀ = scores", "weights · v = heads"],
    cross: ["x · W_Q = q", "context · W_K = k", "context · W_V = v", "q · kᵀ = scores", "weights · v = heads"],
    cats: ["q · kᵀ = scores", "weights · v = heads"], // q, k and v are given
    grouped: [
      ...["x · W_Q + b_Q = q", "x · W_K = k", "x · W_V = v", "q · kᵀ = scores", "weights · v = heads"],
      "concat · W_O + b_O = out",
    ],
    optioned: [
      ...["x · W_Q = q", "x · W_K = k", "x · W_V = v", "q · kᵀ = scores", "dropped · v = heads"],
      "concat · W_O = out",
    ],
    "some steps": ["concat · W_O = out"], // concat is named, and said not to be there
  };
  for (const [name, drawn] of Object.entries(expected)) {
    const {page, data} = await opening(name);
    const wanted = drawn.filter((each) => !each.startsWith("concat") || data.parameters.some((p) => p.name === "W_O"));
    const out = data.steps.some((step) => step.name === "out") && !wanted.some((each) => each.endsWith("= out"));
    assert.deepEqual(await equations(page), [...wanted, ...(out ? ["concat · W_O = out"] : [])], name);
  }
  const {page} = await opening("some steps");
  assert.match(await page.locator("figure.absent").innerText(), /concat\s+not on this page/);
});

pageTest("factors that are drawn again have the numbers of their tensor, kᵀ with rows and columns exchanged", async (opening) => {
  for (const name of ["self", "grouped", "part", "large", "masked", "broken"]) {
    const {page, data} = await opening(name);
    const head = recorded(data, "H", data.sizes.heads)[0];
    const again = await page.evaluate(() =>
      [...document.querySelectorAll("figure[data-copy] td[data-row]")].map((cell) => ({
        name: cell.closest("figure").dataset.copy,
        turned: cell.closest("figure").querySelector("figcaption").textContent.endsWith("ᵀ"),
        row: Number(cell.dataset.row),
        column: Number(cell.dataset.column),
        text: cell.textContent,
        hidden: cell.classList.contains("hidden"),
      })),
    );
    assert.ok(again.some(({turned}) => turned) && again.some(({turned}) => !turned));
    for (const cell of again) {
      const place = cell.turned ? {row: cell.column, column: cell.row} : {};
      checkNumber(data, {...cell, ...place}, 0, head, 4);
    }
  }
});

pageTest("a cell of a factor tells the story of its own tensor; operands are marked inside the product", async (opening) => {
  const {page} = await opening("self");
  await page.locator('figure[data-copy="k"] td[data-row="2"][data-column="1"]').click();
  assert.equal(await page.locator("#arithmetic .cell").textContent(), "k[1][2]");
  assert.equal(await page.locator('figure[data-name="k"] td.chosen[data-row="1"][data-column="2"]').count(), 1);
  await page.locator(cellSelector("scores", 1, 0)).click();
  assert.equal(await page.locator('figure[data-copy="q"] td.left-operand[data-row="1"]').count(), 3);
  assert.equal(await page.locator('figure[data-copy="k"] td.right-operand[data-column="0"]').count(), 3);
  assert.equal(await page.locator('figure[data-name="q"] td.left-operand').count(), 0);
});
