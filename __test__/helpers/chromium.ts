/** A browser for tests. */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll } from 'vitest'

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'

export async function launchChromium(): Promise<Browser> {
  if (!existsSync(CHROMIUM))
    throw new Error(
      `${CHROMIUM} does not exist: run \`apt-get install chromium\`, or set CHROMIUM to its path.`,
    )
  // Chromium cannot have a sandbox of its own as root.
  return await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-quic'] })
}

/** Starts a browser for the tests of the calling file, and ends it after them. Returns what gives it to a test. */
export function useChromium(): () => Browser {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchChromium()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
  })
  return () => browser
}

/** What axe finds in a page outside of its terminals. The policy of a page may not load axe, so its source is evaluated. */
export async function findingsOfAxe(page: Page): Promise<unknown> {
  await page.evaluate(readFileSync(createRequire(__filename).resolve('axe-core/axe.min.js'), 'utf8'))
  return await page.evaluate("axe.run({ exclude: ['.xterm'] }).then(({ violations }) => violations)")
}
