/** The client runs wherever `fetch` does: nothing of Node is in it. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import vm from 'node:vm'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { withServer } from '../helpers/http.js'
import { temporary } from '../helpers/temporary.js'

const root = path.dirname(path.dirname(__dirname))
const bun = path.join(root, 'node_modules/.bin/bun')

/** The client as a browser would get it. */
function bundle(): string {
  const directory = temporary('nacre-bundle-')
  const entry = path.join(directory, 'entry.js')
  const client = path.join(root, 'dist/client.js')
  writeFileSync(
    entry,
    `import { SandboxClient } from ${JSON.stringify(client)}; globalThis.SandboxClient = SandboxClient`,
  )
  execFileSync(bun, ['build', entry, '--target=browser', `--outfile=${path.join(directory, 'out.js')}`], {
    stdio: 'pipe',
  })
  return readFileSync(path.join(directory, 'out.js'), 'utf8')
}

describe('the client in a browser', () => {
  it('has nothing of Node in it', () => {
    const code = bundle()
    expect(code).toContain('SandboxClient')
    expect(code.match(/\bnode:|\bBuffer\b|\bprocess\.env|\brequire\(/g)).toBeNull()
  })

  it('runs commands where there is nothing but what browsers have', () =>
    withServer(async ({ url }) => {
      const { AbortController, ReadableStream, TextDecoder, TextEncoder, URL, URLSearchParams } = globalThis
      const { atob, btoa, clearTimeout, crypto, performance, setTimeout } = globalThis
      const browser = {
        ...{ AbortController, ReadableStream, TextDecoder, TextEncoder, URL, URLSearchParams },
        ...{ atob, btoa, clearTimeout, crypto, performance, setTimeout, Uint8Array },
        fetch: (input: string, init: RequestInit) => fetch(input, init),
      }
      const realm = vm.createContext(browser) as typeof browser & { SandboxClient: typeof SandboxClient }
      vm.runInContext(bundle(), realm)
      const client = new realm.SandboxClient({ url })
      expect((await client.exec('echo ä; cat', { input: 'x' })).stdout).toBe('ä\nx')
      const lines: string[] = []
      for await (const line of client.execStream('seq 3').lines()) lines.push(line)
      expect(lines).toEqual(['1', '2', '3'])
      // An error of the other realm.
      await expect(client.files.copyIn('/proc/nowhere', 'a')).rejects.toHaveProperty('code', 'INVALID_OPTION')
      await client.destroy()
    }))
})

describe('new SandboxClient', () => {
  it('refuses options that it cannot use, by name', () => {
    const cases: Array<[unknown, string]> = [
      [{}, 'url'],
      [{ url: 'ftp://x' }, 'url'],
      [{ url: 'http://user:pass@x' }, 'url'],
      [{ url: 'http://x', token: 'a b' }, 'token'],
      [{ url: 'http://x', fetch: 5 }, 'fetch'],
      [{ url: 'http://x', reconnectTimeout: -1 }, 'reconnectTimeout'],
      [{ url: 'http://x', tokens: 'x' }, 'tokens'],
      [{ url: 'http://x', requestTimeout: -1 }, 'requestTimeout'],
      [{ url: 'http://x', headers: { 'a b': 'x' } }, 'headers'],
      [{ url: 'http://x', headers: { a: 'x', A: 'y' } }, 'headers'],
      [{ url: 'http://x', headers: { 'x-key': 'two\nlines' } }, 'headers.x-key'],
      [{ url: 'http://x', headers: { 'x-key': 5 } }, 'headers.x-key'],
    ]
    for (const [options, name] of cases) {
      expect(() => new SandboxClient(options as never)).toThrow(TypeError)
      expect(() => new SandboxClient(options as never)).toThrow(name)
    }
  })
})
