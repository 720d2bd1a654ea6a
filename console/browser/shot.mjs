// node browser/shot.mjs name path [theme] [language] [width] [height] [scenario] [script] → shots/name.png
import { mkdirSync } from 'node:fs';
import { startMock } from '../dev/server.mjs';
import { launch, openPage } from './open.mjs';

const list = JSON.parse(process.argv[2]);
mkdirSync(new URL('../shots/', import.meta.url), { recursive: true });
const browser = await launch();
for (const { name, path = '/', scenario = 'shop', wait = 900, act, ...options } of list) {
  const mock = await startMock({ scenario });
  mock.state.quiet = !options.busy;
  const page = await openPage(browser, mock.url, path, options);
  page.on('console', (message) => message.type() === 'error' && console.log(name, message.text()));
  page.on('pageerror', (error) => console.log(name, String(error)));
  await page.waitForTimeout(wait);
  if (act) await new Function('page', 'mock', `return (async () => { ${act} })()`)(page, mock);
  await page.screenshot({ path: new URL(`../shots/${name}.png`, import.meta.url).pathname });
  await page.context().close();
  mock.close();
}
await browser.close();
