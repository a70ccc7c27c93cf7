/** The search of the documentation site. */
import { expect, it } from 'vitest'
import { launchChromium } from '../helpers/chromium.js'
import { serveSite } from '../helpers/site.js'

it.each([
  ['askTimeout', 'options/sandbox.html#isolationnetwork-asktimeout'],
  ['detachAfter', 'options/commands.html#exec-and-execstream-detachafter'],
  ['maxConnections', 'options/servers.html#serve-maxconnections'],
])('%s leads to the row of this option', async (option, place) => {
  const [browser, site] = [await launchChromium(), await serveSite()]
  try {
    const page = await browser.newPage()
    await page.goto(`${site.url}/index.html`)
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('searchbox').fill(option)
    await page.locator(`.result[href$="${place}"]`).click()
    await page.locator(`tr[id="${place.replace(/.*#/, '')}"]`, { hasText: option }).waitFor()
    expect(page.url()).toBe(`${site.url}/${place}`)
  } finally {
    await browser.close()
    site.close()
  }
})
