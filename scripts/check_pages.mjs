// Check pages in headless Chromium: axe-core's rules, the console, requests to elsewhere, and what sticks out sideways.
// Each page is opened at 1200 and 390 pixels, light and dark; with --shots it is also photographed, and printed.
//
//   npm install playwright-core axe-core                (in any folder; run the script from there)
//   node PATH/check_pages.mjs [--shots FOLDER] [--set SELECTOR=VALUE]... [--click SELECTOR]... PAGE...
//
// A page is an address or a file. --set types into a field and --click clicks, in the order given, before the checks.
// CHROMIUM names another browser than /usr/bin/chromium. The exit code is 1 if anything was found.

import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const require = createRequire(join(process.cwd(), "anything.js"));
const { chromium } = require("playwright-core");
const { source } = require("axe-core");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const LOOKS = [1200, 390].flatMap((width) => ["light", "dark"].map((theme) => ({ width, theme })));

const { values, positionals, tokens } = parseArgs({
  allowPositionals: true,
  tokens: true,
  options: { shots: { type: "string" }, set: { type: "string", multiple: true }, click: { type: "string", multiple: true } },
});
if (!positionals.length) {
  console.error("give the addresses or files of pages");
  process.exit(2);
}
const steps = tokens.filter(({ name }) => name === "set" || name === "click");
if (values.shots) mkdirSync(values.shots, { recursive: true });

/** Bring the page into the state that --set and --click describe, and let it come to rest. */
async function prepare(page) {
  for (const { name, value } of steps) {
    const [selector, text] = [value.slice(0, value.lastIndexOf("=")), value.slice(value.lastIndexOf("=") + 1)];
    if (name === "set") await page.locator(selector).fill(text);
    else await page.locator(value).click();
    await page.waitForTimeout(1000);
  }
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(300);
}

/** What is wrong with a page, as lines. */
async function faults(page, width) {
  await page.evaluate(source);
  const { violations } = await page.evaluate((tags) => window.axe.run({ runOnly: tags }), TAGS);
  const found = violations.map(({ id, help, nodes }) =>
    `axe ${id}: ${help}: ${nodes.slice(0, 3).map(({ target }) => target.join(" ")).join(", ")} (${nodes.length})`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > width) found.push(`${wide} pixels wide`);
  return found;
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
let all = 0;
for (const place of positionals) {
  const url = existsSync(place) ? pathToFileURL(resolve(place)).href : place;
  const name = place.replace(/^https?:\/\//, "").replace(/[^\w.-]+/g, "-").replace(/^-|-$/g, "");
  for (const { width, theme } of LOOKS) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme,
      hasTouch: width < 600, isMobile: width < 600 });
    const page = await context.newPage();
    const found = [];
    page.on("pageerror", (error) => found.push(`error: ${error.message}`));
    page.on("console", (line) => ["error", "warning"].includes(line.type()) && found.push(`console: ${line.text()}`));
    page.on("request", (request) => {
      const asked = new URL(request.url());
      if (asked.protocol !== "data:" && asked.origin !== new URL(url).origin) found.push(`asks ${asked.host}`);
    });
    await page.goto(url, { waitUntil: "networkidle" });
    await prepare(page);
    found.push(...await faults(page, width));
    console.log(`${place} ${width} ${theme}: ${found.length || "nothing"} found`);
    found.forEach((line) => console.log(`  ${line}`));
    all += found.length;
    if (values.shots) {
      const file = (kind) => join(values.shots, `${name}-${width}-${theme}.${kind}`);
      await page.screenshot({ path: file("png"), fullPage: true });
      if (width > 600) await page.pdf({ path: file("pdf") });
    }
    await context.close();
  }
}
await browser.close();
process.exit(all ? 1 : 0);
