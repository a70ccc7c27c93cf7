/** The search of the documentation site. */
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { launchChromium } from '../helpers/chromium.js'
import { serveSite } from '../helpers/site.js'

async function search(text: string, found: (page: Page, url: string) => Promise<void>): Promise<void> {
  const [browser, site] = [await launchChromium(), await serveSite()]
  try {
    const page = await browser.newPage()
    await page.goto(`${site.url}/index.html`)
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('searchbox').fill(text)
    await found(page, site.url)
  } finally {
    await browser.close()
    site.close()
  }
}

it.each([
  ['wait for port', 'guide/processes.html'],
  ['undo', 'workspace.html'],
  ['timeout', 'guide/first-steps.html'],
  ['isolation', 'isolation.html'],
  ['fork', 'workspace.html'],
])('%s leads to the page that explains it first', (words, place) =>
  search(words, async (page) => {
    const first = page.locator('.result').first()
    await first.waitFor()
    expect(await first.getAttribute('href')).toContain(`/${place}`)
  }),
)

it.each([
  ['askTimeout', 'options/sandbox.html#isolationnetwork-asktimeout'],
  ['detachAfter', 'options/commands.html#exec-and-execstream-detachafter'],
  ['maxConnections', 'options/servers.html#serve-maxconnections'],
])('%s leads to the row of this option', (option, place) =>
  search(option, async (page, url) => {
    await page.locator(`.result[href$="${place}"]`).click()
    await page.locator(`tr[id="${place.replace(/.*#/, '')}"]`, { hasText: option }).waitFor()
    expect(page.url()).toBe(`${url}/${place}`)
  }),
)
