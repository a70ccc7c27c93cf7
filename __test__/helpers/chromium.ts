/** A browser for tests. */
import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'

export async function launchChromium(): Promise<Browser> {
  if (!existsSync(CHROMIUM))
    throw new Error(
      `${CHROMIUM} does not exist: run \`apt-get install chromium\`, or set CHROMIUM to its path.`,
    )
  // Chromium cannot have a sandbox of its own as root.
  return await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-quic'] })
}
