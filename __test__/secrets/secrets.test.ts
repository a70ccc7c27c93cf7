/** Values that programs use but never see, with real programs and a server with TLS. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { inspect } from 'node:util'
import type { IsolationRules, NetworkRules, Secret } from 'nacre'
import { afterAll, describe, expect, it } from 'vitest'
import { itHolds, withClient } from '../contract/helper.js'
import { refusedConnection } from '../helpers/denials.js'
import { withSandbox } from '../helpers/invariants.js'
import { startOrigin } from '../helpers/origin.js'
import { startProxiedOrigin, VALUE } from '../helpers/proxied-origin.js'
import { rejectionOf } from '../helpers/thrown.js'

const [origin, other] = await Promise.all([startProxiedOrigin(), startOrigin()])
afterAll(() => other.close())

/** Rules with the secret TOKEN for the server. */
function rules(secret: Partial<Secret> = {}, network: Partial<NetworkRules> = {}): IsolationRules {
  const TOKEN = { value: VALUE, hosts: [origin.target], ...secret }
  return origin.rules({ secrets: { TOKEN }, ...network })
}

const url = (file = '/echo') => `https://localhost:${origin.port}${file}`
const bearer = '-H "Authorization: Bearer $TOKEN"'
const lastSeen = () => origin.seen.at(-1)

describe('a secret', () => {
  const options = { isolation: rules() }
  const programs: Record<string, [command: string, authorization: string]> = {
    'curl, HTTP/2': [`curl -sS ${bearer} PAGE`, `Bearer ${VALUE}`],
    'curl, HTTP/1.1': [`curl -sS --http1.1 ${bearer} PAGE`, `Bearer ${VALUE}`],
    'curl by SOCKS': [`curl -sS --socks5-hostname \${ALL_PROXY#http://} ${bearer} PAGE`, `Bearer ${VALUE}`],
    'curl with a user': [
      'curl -sS -u me:$TOKEN PAGE',
      `Basic ${Buffer.from(`me:${VALUE}`).toString('base64')}`,
    ],
    git: [
      'git ls-remote https://me:$TOKEN@localhost:PORT/echo/r.git 2>&1; curl -sS -u me:$TOKEN PAGE',
      `Basic ${Buffer.from(`me:${VALUE}`).toString('base64')}`,
    ],
    python: [
      `python3 -c 'import os, urllib.request as r
print(r.urlopen(r.Request("PAGE", headers={"Authorization": "Bearer " + os.environ["TOKEN"]})).read().decode())'`,
      `Bearer ${VALUE}`,
    ],
    'Node.js': [
      `node -e "
        const { hostname, port } = new URL(process.env.HTTPS_PROXY)
        require('http').request({ host: hostname, port, method: 'CONNECT', path: 'localhost:PORT' }).on('connect', (_, socket) =>
          require('https').get('PAGE', { createConnection: () => require('tls').connect({ socket, servername: 'localhost' }), headers: { authorization: 'Bearer ' + process.env.TOKEN } },
            (reply) => reply.pipe(process.stdout).on('finish', () => process.exit()))).end()"`,
      `Bearer ${VALUE}`,
    ],
  }
  for (const [name, [command, authorization]] of Object.entries(programs))
    it(`reaches its host, and comes back masked: ${name}`, () =>
      withSandbox(
        async ({ sandbox }) => {
          const text = command.replaceAll('PAGE', url()).replaceAll('PORT', String(origin.port))
          const { stdout, stderr, exitCode } = await sandbox.exec(text, { timeout: 60_000 })
          expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 })
          expect(lastSeen()?.authorization).toBe(authorization)
          const { stdout: placeholder } = await sandbox.exec('printf %s "$TOKEN"')
          expect(placeholder).toMatch(/^ghp_[A-Za-z0-9]{36}$/)
          expect(placeholder).not.toBe(VALUE)
          const shown = authorization.replace(VALUE, placeholder)
          const basic = `Basic ${Buffer.from(`me:${placeholder}`).toString('base64')}`
          // The last letter of base64 also has bits of the value.
          expect(stdout).toContain(authorization.startsWith('Basic') ? basic.slice(0, -3) : shown)
        },
        { options },
      ))

  itHolds(
    'has a placeholder in commands, processes, terminals and new sessions, and a value nowhere',
    async ({ sandbox, directory }) => {
      const look = 'env; cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n"; printf "[%s]" "$TOKEN"'
      const { stdout } = await sandbox.exec(look)
      const placeholder = /\[(ghp_[A-Za-z0-9]{36})\]/.exec(stdout)?.[1]
      const process = await sandbox.startProcess(['bash', '-c', `echo "<$TOKEN>"; ${look}`])
      await process.waitForExit()
      const terminal = await sandbox.startProcess(['bash', '-c', `echo "<$TOKEN>"`], {
        pty: { cols: 80, rows: 24 },
      })
      await terminal.waitForExit()
      const session = await sandbox.createSession()
      const texts = [
        stdout,
        (await process.getLogs()).stdout,
        (await terminal.getLogs()).stdout,
        (await session.exec(`echo "<$TOKEN>"; ${look}`)).stdout,
      ]
      for (const text of texts) expect(text).not.toContain(VALUE)
      for (const text of texts.slice(1)) expect(text).toContain(`<${placeholder}>`)
      await sandbox.exec(`curl -sS ${bearer} ${url()} > reply; history > history`)
      expect(lastSeen()?.authorization).toBe(`Bearer ${VALUE}`)
      expect(readFileSync(path.join(directory, 'reply'), 'utf8')).toContain(`Bearer ${placeholder}`)
      const shown = JSON.stringify([
        await (await sandbox.getSession('default'))?.history(),
        await sandbox.listProcesses(),
      ])
      expect(shown + inspect(sandbox, { depth: 10, showHidden: true })).not.toContain(VALUE)
    },
    { options: { ...options, env: { OTHER: `x${VALUE}` } } },
  )

  it('is replaced in every variable that a caller passes on', () =>
    withSandbox(
      async ({ sandbox }) => {
        const { stdout: placeholder } = await sandbox.exec('printf %s "$TOKEN"')
        const env = { A: `Bearer ${VALUE}` }
        const print = 'printf "%s|%s|%s" "$OTHER" "$A" "$B"'
        expect((await sandbox.exec(print, { env })).stdout).toBe(`x${placeholder}|Bearer ${placeholder}|`)
        await sandbox.setEnvVars({ B: VALUE })
        expect((await sandbox.exec(print)).stdout).toBe(`x${placeholder}||${placeholder}`)
        const process = await sandbox.startProcess(['bash', '-c', print], { env })
        await process.waitForExit()
        expect((await process.getLogs()).stdout).toBe(`x${placeholder}|Bearer ${placeholder}|${placeholder}`)
        const session = await sandbox.createSession({ env: { B: `<${VALUE}>` } })
        expect((await session.exec(print)).stdout).toBe(`x${placeholder}||<${placeholder}>`)
      },
      { options: { ...options, env: { OTHER: `x${VALUE}` } } },
    ))

  it('opens a WebSocket, whose messages are masked', () =>
    withSandbox(
      async ({ sandbox }) => {
        const headers = [
          'Connection: Upgrade',
          'Upgrade: websocket',
          'Sec-WebSocket-Extensions: permessage-deflate',
        ]
        const given = headers.map((header) => `-H '${header}'`).join(' ')
        const { stdout } = await sandbox.exec(
          `curl -sS --http1.1 -o message ${given} ${bearer} ${url('/')}; tail -c +3 message; printf ' %s' "$TOKEN"; rm message`,
        )
        expect(lastSeen()?.authorization).toBe(`Bearer ${VALUE}`)
        expect(lastSeen()?.headers).not.toHaveProperty('sec-websocket-extensions')
        const [, shown, placeholder] = stdout.split(' ')
        expect(shown).toBe(placeholder)
        expect(placeholder).toMatch(/^ghp_/)
      },
      { options },
    ))

  it('goes to no other host, by redirect, header or plain HTTP', () =>
    withSandbox(
      async ({ sandbox }) => {
        other.seen.length = 0
        const to = encodeURIComponent(`https://localhost:${other.port}/echo`)
        const { stdout } = await sandbox.exec(`curl -sSkL --location-trusted ${bearer} '${url(`/to?${to}`)}'`)
        const placeholder = (await sandbox.exec('printf %s "$TOKEN"')).stdout
        expect(other.seen.at(-1)?.authorization).toBe(`Bearer ${placeholder}`)
        expect(stdout).toContain(placeholder)
        const count = origin.seen.length
        const wrong = await sandbox.exec(
          `curl -sS -o /dev/null -w '%{http_code} ' ${bearer} -H 'Host: other.test' ${url()}; curl -sS -o /dev/null -w '%{http_code}' ${bearer} http://localhost:${origin.port}/`,
        )
        expect(wrong.stdout).toBe('421 403')
        expect(origin.seen.length).toBe(count)
      },
      { options: { isolation: rules({}, { allow: [`localhost:${other.port}`] }) } },
    ))

  it('goes only where its rule says, to a header, a parameter or a body', () =>
    withSandbox(
      async ({ sandbox }) => {
        await sandbox.exec(
          `curl -sS ${bearer} -H "X-Key: $TOKEN" -H "X-Other: $TOKEN" -d "a=$TOKEN" "${url()}?key=$TOKEN&other=$TOKEN"`,
        )
        const { stdout: placeholder } = await sandbox.exec('printf %s "$TOKEN"')
        expect(lastSeen()).toMatchObject({
          authorization: `Bearer ${placeholder}`,
          headers: { 'x-key': VALUE, 'x-other': placeholder },
          body: `a=${VALUE}`,
          url: `/echo?key=${VALUE}&other=${placeholder}`,
        })
      },
      { options: { isolation: rules({ in: [{ header: 'X-Key' }, { query: 'key' }, 'body'] }) } },
    ))

  it('has the placeholder that its rule gives', () =>
    withSandbox(
      async ({ sandbox }) => {
        const { stdout } = await sandbox.exec(`curl -sS ${bearer} ${url()}; printf " %s" "$TOKEN"`)
        expect(lastSeen()?.authorization).toBe(`Bearer ${VALUE}`)
        expect(stdout).toMatch(/Bearer placeholder-of-the-caller.* placeholder-of-the-caller$/)
      },
      { options: { isolation: rules({ placeholder: 'placeholder-of-the-caller' }) } },
    ))

  it('needs a host that is trusted', () =>
    withSandbox(
      async ({ sandbox }) => {
        const count = origin.seen.length
        const { stdout } = await sandbox.exec(`curl -sS ${bearer} ${url()} -w ' %{http_code}'`)
        expect(stdout).toMatch(/isolation\.network\.authorities[\s\S]* 502$/)
        expect(origin.seen.length).toBe(count)
      },
      { options: { isolation: rules({}, { authorities: [] }) } },
    ))

  it('is not used where the rules deny its host', () =>
    withSandbox(
      async ({ sandbox }) => {
        const { denials, exitCode } = await sandbox.exec(`curl -sS ${bearer} ${url()}`)
        expect(exitCode).not.toBe(0)
        const target = `localhost:${origin.port}`
        expect(denials).toEqual([
          { ...refusedConnection(target, 'curl'), rule: 'isolation.network.deny', fix: undefined },
        ])
      },
      { options: { isolation: rules({}, { deny: [`localhost:${origin.port}`] }) } },
    ))
})

describe('a session', () => {
  itHolds(
    'inherits secrets, can leave them out, and keeps the placeholders of those that it names',
    async ({ sandbox }) => {
      const print = 'printf %s "${TOKEN-unset}"'
      const { stdout: placeholder } = await sandbox.exec(print)
      const without = await sandbox.createSession({ isolation: { network: { allow: [] } } })
      expect((await without.exec(print)).stdout).toBe('unset')
      const refused = await without.exec(`curl -sS --proxy "$HTTPS_PROXY" --noproxy '' ${url()}`)
      expect(refused.denials).toHaveLength(1)
      const opaque = await sandbox.createSession({
        isolation: { network: { allow: [`localhost:${origin.port}`] } },
      })
      await opaque.exec(`curl -sS -H 'Authorization: Bearer ${placeholder}' ${url()}`)
      expect(lastSeen()?.authorization).toBe(`Bearer ${placeholder}`)
      const same = await sandbox.createSession({ isolation: rules() })
      expect((await same.exec(print)).stdout).toBe(placeholder)
      await same.exec(`curl -sS ${bearer} ${url()}`)
      expect(lastSeen()?.authorization).toBe(`Bearer ${VALUE}`)
    },
    { options: { isolation: rules() } },
  )

  itHolds(
    'can have a secret of its own, but none that goes further than that of the sandbox',
    async ({ sandbox }) => {
      const secrets = { MINE: { value: 'another-value-1', hosts: [`localhost:${origin.port}`] } }
      const own = await sandbox.createSession({ isolation: rules({}, { secrets }) })
      const { stdout } = await own.exec(
        `curl -sS -H "Authorization: Bearer $MINE" ${url()}; printf ' %s' "\${TOKEN-unset}"`,
      )
      expect(lastSeen()?.authorization).toBe('Bearer another-value-1')
      expect(stdout).toMatch(/ unset$/)
      for (const [wider, rule] of [
        [rules({ in: ['body'] }), 'network.secrets'],
        [rules({ hosts: [`localhost:${origin.port}`, 'elsewhere.test'] }), 'network'],
        [rules({}, { authorities: [other.authority] }), 'network.authorities'],
      ] as const) {
        const error = await rejectionOf(sandbox.createSession({ isolation: wider }))
        expect(String(error)).toContain(`isolation.${rule} of a session must be as strict`)
        expect(inspect(error)).not.toContain(VALUE)
      }
    },
    { options: { isolation: rules() } },
  )

  it('of a sandbox without rules can have secrets, whose values are replaced in what it inherits', () =>
    withSandbox(
      async ({ sandbox }) => {
        const session = await sandbox.createSession({ isolation: rules() })
        const { stdout } = await session.exec('printf "%s %s" "$TOKEN" "$OTHER"')
        const [placeholder, inherited] = stdout.split(' ')
        expect(inherited).toBe(placeholder)
        expect(placeholder).not.toBe(VALUE)
      },
      { options: { env: { OTHER: VALUE } } },
    ))
})

describe('what programs trust', () => {
  const list =
    'for name in SSL_CERT_FILE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS DENO_CERT; do echo "$name ${!name-unset}"; done'

  it('is the machine itself without secrets and authorities', () =>
    withSandbox(
      async ({ sandbox }) => {
        const { stdout } = await sandbox.exec(`${list}; ls -d /dev/nacre 2>&1 | grep -c 'No such'`)
        expect(stdout.match(/unset/g)).toHaveLength(4)
        expect(stdout).toMatch(/1\n$/)
      },
      {
        options: {
          isolation: { network: { allow: ['localhost:1'] } },
          env: {
            SSL_CERT_FILE: undefined,
            REQUESTS_CA_BUNDLE: undefined,
            NODE_EXTRA_CA_CERTS: undefined,
            DENO_CERT: undefined,
          },
        },
      },
    ))

  it('includes given authorities, and what a variable has named', () =>
    withSandbox(
      async ({ sandbox, directory }) => {
        const file = path.join(directory, 'own.pem')
        writeFileSync(file, `${other.authority}\n${readFileSync('/etc/hostname', 'utf8')}`)
        const session = await sandbox.createSession({
          env: { GIT_SSL_CAINFO: file, SSL_CERT_FILE: undefined },
        })
        const has = (pem: string) => pem.replace(/-----[A-Z ]+-----|\s/g, '')
        const read = async (variable: string) =>
          (await session.exec(`cat "$${variable}"`)).stdout.replace(/\s/g, '')
        for (const variable of ['GIT_SSL_CAINFO', 'SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS'])
          expect(await read(variable)).toContain(has(origin.authority))
        expect(await read('GIT_SSL_CAINFO')).toContain(has(other.authority))
        expect(await read('SSL_CERT_FILE')).not.toContain(has(other.authority))
        const write = await session.exec(
          'echo x >> "$SSL_CERT_FILE"; rm -f "$GIT_SSL_CAINFO"; cat "$GIT_SSL_CAINFO" | wc -l',
        )
        expect(write.stderr).toContain('Read-only file system')
        expect(Number(write.stdout)).toBeGreaterThan(10)
        // An opaque connection, with an authority that nacre itself has made known.
        expect((await session.exec(`curl -sS https://localhost:${origin.port}/`)).stdout).toBe('hello')
      },
      { options: { isolation: rules({}, { secrets: {}, allow: [`localhost:${origin.port}`] }) } },
    ))

  it('covers the bundle of the machine', () =>
    withSandbox(
      async ({ sandbox }) => {
        const unset = 'unset SSL_CERT_FILE CURL_CA_BUNDLE'
        const { stdout, stderr } = await sandbox.exec(`${unset}; curl -sS ${bearer} ${url('/')}`)
        expect({ stdout, stderr }).toEqual({ stdout: 'hello', stderr: '' })
        expect((await sandbox.capabilities()).isolation.trust).toBe('mounted')
      },
      { options: { isolation: rules() } },
    ))
})

describe('replies and recordings', () => {
  it('over HTTP have no value', () =>
    withSandbox(async (place) => {
      await withClient(place, async (client) => {
        const session = await client.createSession({ isolation: rules() })
        await session.exec(`curl -sS ${bearer} ${url()}`)
        expect(lastSeen()?.authorization).toBe(`Bearer ${VALUE}`)
        const error = await rejectionOf(
          client.createSession({ isolation: rules({ value: `${VALUE}\n`, hosts: ['*.test'] }) }),
        )
        expect(inspect(error)).not.toContain(VALUE)
      })
    }))
})
