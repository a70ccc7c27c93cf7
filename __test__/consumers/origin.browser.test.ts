/** The client in a page of another origin than the server's: a browser hides why such a call fails. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { serve } from '@nacre/server'
import { build } from 'esbuild'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { launchChromium } from '../helpers/chromium.js'
import { root } from '../helpers/markdown.js'

/** The client as one module for browsers. */
async function bundled(): Promise<string> {
  const entryPoints = [path.join(root, 'dist/client.js')]
  const options = { bundle: true, format: 'esm', platform: 'browser', write: false } as const
  const { outputFiles } = await build({ entryPoints, ...options })
  return outputFiles[0]?.text ?? ''
}

it('a page of another origin, and the log of the server, name --allow-origin', async () => {
  const script = await bundled()
  const pages = createServer(({ url }, reply) => {
    reply.setHeader('content-type', url === '/client.js' ? 'text/javascript' : 'text/html')
    reply.end(url === '/client.js' ? script : '<!doctype html>')
  })
  await new Promise<void>((resolve) => pages.listen(0, '127.0.0.1', resolve))
  const { port } = pages.address() as AddressInfo
  const [allowed, refused] = [`http://127.0.0.1:${port}`, `http://localhost:${port}`]
  const warnings: string[] = []
  const logger = { debug() {}, info() {}, error() {}, warn: (line: string) => warnings.push(line) }
  await using sandbox = new Sandbox()
  await using browser = await launchChromium()
  const answers: unknown[] = []
  // Without a list, the preflight itself is refused; with one, it is answered, but not for others.
  for (const allowedOrigins of [undefined, [allowed]]) {
    const serving = await serve(sandbox, { port: 0, logger, ...(allowedOrigins && { allowedOrigins }) })
    const call = `import('/client.js').then(({ SandboxClient }) => new SandboxClient({ url: '${serving.url}' })
      .exec('echo ran').then(({ stdout }) => stdout, ({ code, message }) => code + ': ' + message))`
    for (const origin of [refused, ...(allowedOrigins ?? [])]) {
      const page = await browser.newPage()
      await page.goto(origin)
      answers.push(await page.evaluate(call))
      await page.close()
    }
    await serving.close()
  }
  pages.close()
  const remedy = expect.stringMatching(`^CONNECTION_FAILED: .*--allow-origin ${refused} `)
  expect(answers).toEqual([remedy, remedy, 'ran\n'])
  expect(warnings).toContainEqual(expect.stringContaining(`--allow-origin "${refused}"`))
})
