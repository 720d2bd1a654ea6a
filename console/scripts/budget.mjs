// Prints the gzipped size of what the build made and fails beyond the budgets of the design.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const KB = 1000;
const LIMITS = { js: 170 * KB, css: 18 * KB, page: 40 * KB, whole: 300 * KB };
const dir = new URL('../dist/assets/', import.meta.url).pathname;
const html = readFileSync(join(dir, '../index.html'), 'utf8');
const files = readdirSync(dir).map((name) => ({ name, size: gzipSync(readFileSync(join(dir, name))).length }));
const sum = (list) => list.reduce((total, file) => total + file.size, 0);
const isFirst = (file) => html.includes(file.name) || /^(overview|messages-en)/.test(file.name);

const first = files.filter(isFirst);
const others = files.filter((file) => !isFirst(file));
/** A page is its script and the style of the same name. */
const nameOf = (file) => file.name.split('-')[0];
const pages = [...new Set(others.map(nameOf))].map((name) => sum(others.filter((file) => nameOf(file) === name)));
const rows = [
  ['shell and overview, JS', sum(first.filter((file) => file.name.endsWith('.js'))), LIMITS.js],
  ['shell and overview, CSS', sum(first.filter((file) => file.name.endsWith('.css'))), LIMITS.css],
  ['largest other page', Math.max(0, ...pages), LIMITS.page],
  ['everything', sum(files), LIMITS.whole],
];
for (const file of files.sort((a, b) => b.size - a.size)) console.log(`${String(file.size).padStart(8)}  ${file.name}`);
let over = false;
for (const [name, size, limit] of rows) {
  over ||= size > limit;
  console.log(`${name}: ${(size / KB).toFixed(1)} kB of ${limit / KB} kB${size > limit ? '  OVER' : ''}`);
}
if (/<(script|style)[^>]*>[^<]/.test(html)) {
  console.log('index.html has an inline script or style, which the content security policy refuses');
  over = true;
}
if (html.split('<base href="/" />').length !== 2) {
  console.log('index.html has to have <base href="/" /> exactly once: the server replaces it');
  over = true;
}
process.exit(over ? 1 : 0);
