/** Secrets in each tier of isolation, and for programs that ignore the proxy. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withHosts } from '../helpers/namespaces.js'
import { makeCertificates } from '../helpers/origin.js'
import { outerAddress } from '../helpers/serving.js'
import { runInTier } from './run-in-tier.js'
import { Programs, tiers } from './tiers.js'

interface Reply {
  results: { all: string; exitCode: number; seen: string[] }[]
  trust: string
  /** Files with certificates that are left. */
  left: string[]
}

const VALUE = `ghp_${'Zx9Kq2Lm7'.repeat(4)}`
const NAME = 'api.test'
let base: string
let programs: Programs
let given: object

beforeAll(() => {
  base = mkdtempSync(path.join(os.tmpdir(), 'nacre-certificates-of-test-'))
  makeCertificates(base, ['localhost', NAME])
  const [key, cert, authority] = ['origin.key', 'origin.pem', 'ca.pem'].map((name) =>
    readFileSync(path.join(base, name), 'utf8'),
  )
  given = { key, cert, authority, value: VALUE }
  programs = new Programs('secrets-runner.mjs')
  mkdirSync(path.join(base, 'work'))
})

afterAll(() => {
  programs.remove()
  rmSync(base, { recursive: true, force: true })
})

const look = 'env; cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n"; echo "<$TOKEN>"'
const curl = 'curl -sS -H "Authorization: Bearer $TOKEN" https://HOST:PORT/'

describe('a secret', () => {
  for (const tier of tiers)
    it(`is used and not seen, with ${tier.name}`, async () => {
      const change =
        'for f in "$SSL_CERT_FILE" "$NODE_EXTRA_CA_CERTS"; do : >> "$f" || rm -f "$f" || mv "$f" x; [ -s "$f" ] && echo whole; done'
      const commands = [
        curl.replace('HOST', 'localhost'),
        look,
        `(${change}) 2>/dev/null`,
        curl.replace('HOST', 'localhost'),
      ]
      const task = { ...given, host: 'localhost', commands }
      const { results, trust, left } = await programs.run<Reply>(tier, 'secrets-runner.mjs', task)
      const [used, looked, changed, again] = results
      const placeholder = /<(ghp_[A-Za-z0-9]{36})>/.exec(looked?.all ?? '')?.[1]
      const expected = { all: `echo Bearer ${placeholder}`, exitCode: 0, seen: [`Bearer ${VALUE}`] }
      expect(used).toEqual(expected)
      expect(looked?.all).not.toContain(VALUE)
      expect(changed?.all).toBe('whole\nwhole\n')
      expect(again).toEqual(expected)
      expect(trust).toBe(tier.hasMounts ? 'mounted' : 'variables')
      expect(left).toEqual([])
    })

  describe.each(tiers.filter(({ hasMounts }) => hasMounts))('of programs, with $name', (tier) => {
    const used = curl.replace('HOST', 'localhost')
    const other = 'cp "$(command -v curl)" other; ./other'
    const commands = ['echo "<$TOKEN>"', used, used.replace('curl', other)]
    const rules = { commands, host: 'localhost', programs: { curl: { allow: [] } } }

    it('is for their requests alone', async () => {
      const { results } = await programs.run<Reply>(tier, 'secrets-runner.mjs', { ...given, ...rules })
      const [shown, its, others] = results
      const placeholder = shown?.all.slice(1, -2)
      const expected = { all: `echo Bearer ${placeholder}`, exitCode: 0, seen: [`Bearer ${VALUE}`] }
      expect([its, others]).toEqual([expected, { ...others, seen: [] }])
      expect(others?.exitCode).not.toBe(0)
    })

    it('stays a placeholder for other programs that may reach the host', async () => {
      const task = { ...given, ...rules, isOpen: true }
      const { results } = await programs.run<Reply>(tier, 'secrets-runner.mjs', task)
      const placeholder = results[0]?.all.slice(1, -2)
      expect(results.map(({ seen }) => seen)).toEqual([[], [`Bearer ${VALUE}`], [`Bearer ${placeholder}`]])
    })
  })

  it('is an error where nothing leads connections through the proxy, even with bestEffort', () => {
    const rules = {
      network: { allow: [], secrets: { TOKEN: { value: VALUE, hosts: [NAME] } } },
      bestEffort: true,
    }
    expect(runInTier('none', base, rules, 'echo runs')).toBe('ISOLATION_UNSUPPORTED\n')
  })

  const python = `python3 -c 'import os, urllib.request as r
print(r.urlopen(r.Request("https://HOST:PORT", headers={"Authorization": "Bearer " + os.environ["TOKEN"]})).read().decode(), end="")'`
  const node = `node -e "require('https').get('https://HOST:PORT', { headers: { authorization: 'Bearer ' + process.env.TOKEN } }, (reply) => reply.pipe(process.stdout))"`
  const wget = 'wget -qO- --header "Authorization: Bearer $TOKEN" https://HOST:PORT'
  const java = `cat > A.java <<'END'
class A {
  public static void main(String[] words) throws Exception {
    var connection = new java.net.URL("https://HOST:PORT").openConnection();
    connection.setRequestProperty("Authorization", "Bearer " + System.getenv("TOKEN"));
    System.out.print(new String(connection.getInputStream().readAllBytes()));
  }
}
END
java A.java 2> errors || cat errors`

  it('is used by programs that ignore the proxy, and trust the bundle of the machine alone', () => {
    writeFileSync(path.join(base, 'hosts'), `${outerAddress()} ${NAME}\n127.0.0.1 localhost\n`)
    const ignoring = `unset {HTTP,HTTPS,ALL,NO}_PROXY {http,https,all,no}_proxy`
    const withoutVariables = 'unset SSL_CERT_FILE CURL_CA_BUNDLE'
    const own = [
      [ignoring, curl],
      [ignoring, withoutVariables, curl],
      [ignoring, python],
      [ignoring, withoutVariables, python],
      [ignoring, node],
      [wget],
      [ignoring, wget],
      ...(spawnable('java') ? [[ignoring, java]] : []),
    ].map((lines) => `(${lines.join('\n')}\n)`.replaceAll('HOST', NAME))
    const commands = ['echo "<$TOKEN>"', ...own]
    const [program = '', ...rest] = withHosts(path.join(base, 'hosts'))
    const built = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'index.js')
    const runner = [process.execPath, path.join(__dirname, 'secrets-runner.mjs'), pathToFileURL(built).href]
    const input = JSON.stringify({ ...given, host: NAME, commands, hide: ['/etc/hosts'] })
    const { results } = JSON.parse(
      execFileSync(program, [...rest, ...runner], { encoding: 'utf8', input }),
    ) as Reply
    const placeholder = results[0]?.all.slice(1, -2)
    for (const [index, result] of results.slice(1).entries())
      expect({ command: own[index], ...result }).toEqual({
        command: own[index],
        all: `echo Bearer ${placeholder}`,
        exitCode: 0,
        seen: [`Bearer ${VALUE}`],
      })
  })
})

function spawnable(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
