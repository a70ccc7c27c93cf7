/**
 * Runs programs beside a server with TLS that wants a token, and prints their results as JSON: `clients-runner.mjs MODULE`, with
 * { key, cert, authority, value, env, clients, package } as JSON on standard input. PORT in a command or file is the server's port.
 * The server has the registries of npm, pip, cargo and containers with one package each, a repository of git, events, a
 * WebSocket and gRPC.
 */
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import http2 from 'node:http2'
import path from 'node:path'

const { Sandbox } = await import(process.argv[2])
const { key, cert, authority, value, env, clients } = JSON.parse(fs.readFileSync(0, 'utf8'))

// Not below /tmp, which is private to a session.
const base = fs.mkdtempSync('/var/tmp/nacre-clients-')
const at = (...names) => path.join(base, ...names)
for (const name of ['home', 'work', 'made']) fs.mkdirSync(at(name))

/** What a request had that reached the server with the token. */
let seen = []

const server = http2.createSecureServer({ key, cert, allowHTTP1: true })
await new Promise((resolve) => server.listen(0, '0.0.0.0', resolve))
const { port } = server.address()
const files = makeFiles(`https://registry.test:${port}`)

server.on('checkContinue', (request, response) => {
  response.writeContinue()
  server.emit('request', request, response)
})
server.on('request', (request, response) => {
  answer(request, response).catch(() => response.destroy?.())
})
server.on('upgrade', (request, socket) => {
  if (!isAllowed(request.headers)) return socket.end('HTTP/1.1 401 Unauthorized\r\n\r\n')
  const digest = createHash('sha1').update(
    `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`,
  )
  const head = [
    'Upgrade: websocket',
    'Connection: Upgrade',
    `Sec-WebSocket-Accept: ${digest.digest('base64')}`,
  ]
  socket.write(`HTTP/1.1 101 Switching Protocols\r\n${head.join('\r\n')}\r\n\r\n`)
  // Returns a short text, which has no mask then, and the end.
  socket
    .on('error', () => {})
    .on('data', (frame) => {
      if ((frame[0] & 15) === 8) return socket.end(Buffer.from([0x88, 0]))
      const length = frame[1] & 127
      const text = frame.subarray(6, 6 + length).map((byte, index) => byte ^ frame[2 + (index % 4)])
      socket.write(Buffer.concat([Buffer.from([0x81, length]), text]))
    })
})

/** Whether the token is there: alone, behind a scheme, as user or password of Basic, or as a header of its own. */
function isAllowed(headers) {
  const credential = headers.authorization ?? ''
  const basic = Buffer.from(credential.replace(/^Basic /i, ''), 'base64').toString()
  const is = credential.replace(/^\S+ /, '') === value || basic.split(':').includes(value)
  if (is) seen.push(credential.split(' ')[0] === value ? '' : credential.split(' ')[0])
  return is
}

async function answer(request, response) {
  const url = new URL(request.url, 'https://origin')
  const allowed = isAllowed(request.headers)
  const reply = (status, type, body) => {
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) })
    response.end(body)
  }
  const json = (status, content) => reply(status, 'application/json', JSON.stringify(content))
  if (url.pathname === '/open') return json(200, { hello: 'world' })
  if (!allowed) {
    response.writeHead(401, { 'www-authenticate': 'Basic realm="test"', 'content-length': 0 })
    return response.end()
  }
  if (url.pathname === '/user') return json(200, { login: 'me', version: request.httpVersion })
  if (url.pathname === '/events') {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    // The next event comes when the client has seen the last.
    response.write(`data: ${request.headers.authorization}\n\n`)
    waiting = response
    return
  }
  if (url.pathname === '/next') {
    waiting?.end('data: end\n\n')
    return json(200, {})
  }
  if (url.pathname.startsWith('/pkg.Echo/')) {
    response.writeHead(200, { 'content-type': 'application/grpc' })
    request.on('end', () =>
      response.addTrailers({ 'grpc-status': '0', 'x-echo': request.headers.authorization }),
    )
    return void request.pipe(response)
  }
  if (url.pathname.startsWith('/git/')) return git(request, response, url)
  const file = files.get(decodeURIComponent(url.pathname))
  if (request.method === 'GET' && file !== undefined) return reply(200, file.type, file.body)
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  if (request.method === 'PUT' && url.pathname.startsWith('/npm/')) return json(201, { ok: true })
  if (url.pathname === '/echo') {
    const { headers } = request
    return json(200, {
      headers,
      hasValue: body.includes(value),
      length: body.length,
      body: body.toString().slice(0, 1000),
    })
  }
  json(404, {})
}

/** A stream of events that waits for the last one. */
let waiting

function git(request, response, url) {
  const { 'content-type': type, 'content-encoding': coding, 'git-protocol': protocol } = request.headers
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: at('made'),
      GIT_HTTP_EXPORT_ALL: '1',
      REMOTE_USER: 'me',
      PATH_INFO: url.pathname.slice('/git'.length),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: type ?? '',
      HTTP_CONTENT_ENCODING: coding ?? '',
      GIT_PROTOCOL: protocol ?? '',
    },
  })
  request.pipe(child.stdin).on('error', () => {})
  let head = Buffer.alloc(0)
  child.stdout.on('data', function read(chunk) {
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    child.stdout.off('data', read)
    const fields = head.subarray(0, end).toString().split('\r\n')
    const { Status = '200', ...rest } = Object.fromEntries(fields.map((line) => line.split(/: */, 2)))
    response.writeHead(Number.parseInt(Status, 10), rest)
    response.write(head.subarray(end + 4))
    child.stdout.pipe(response)
  })
}

/** The files of the registries, by their paths. */
function makeFiles(url) {
  const run = (...words) => execFileSync(words[0], words.slice(1), { cwd: at('made'), stdio: 'pipe' })
  fs.mkdirSync(at('made', 'package'))
  fs.writeFileSync(
    at('made', 'package', 'package.json'),
    '{"name":"tiny","version":"1.0.0","main":"index.js"}',
  )
  fs.writeFileSync(at('made', 'package', 'index.js'), 'module.exports = "tiny works"')
  run('tar', 'czf', 'tiny.tgz', 'package')
  const tarball = fs.readFileSync(at('made', 'tiny.tgz'))
  const dist = {
    tarball: `${url}/npm/tiny/-/tiny-1.0.0.tgz`,
    integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}`,
    shasum: createHash('sha1').update(tarball).digest('hex'),
  }
  const manifest = { name: 'tiny', version: '1.0.0', main: 'index.js', dist }
  const packument = { name: 'tiny', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': manifest } }
  const wheel = 'tiny-1.0.0-py3-none-any.whl'
  run(
    'python3',
    '-c',
    `import zipfile
z = zipfile.ZipFile('${wheel}', 'w')
z.writestr('tiny.py', 'value = "tiny works"')
z.writestr('tiny-1.0.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0.0\\n')
z.writestr('tiny-1.0.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
z.writestr('tiny-1.0.0.dist-info/RECORD', '')
z.close()`,
  )
  const commit = 'git -c user.email=a@example.com -c user.name=a commit -qm one'
  run(
    'sh',
    '-c',
    `git init -q --bare -b main r.git && git -C r.git config http.receivepack true && git init -q -b main w && cd w && head -c 3000000 /dev/urandom > file && git add file && ${commit} && git push -q ../r.git main`,
  )
  const json = (content, type = 'application/json') => ({ type, body: Buffer.from(JSON.stringify(content)) })
  const bytes = (body) => ({ type: 'application/octet-stream', body })
  const page = `<!DOCTYPE html><html><body><a href="${url}/pip/${wheel}">${wheel}</a></body></html>`
  const config = { dl: `${url}/cargo/dl`, api: `${url}/cargo`, 'auth-required': true }
  const type = 'application/vnd.docker.distribution.manifest.v2+json'
  return new Map(
    Object.entries({
      '/npm/tiny': json(packument),
      '/npm/tiny/-/tiny-1.0.0.tgz': bytes(tarball),
      '/simple/tiny/': { type: 'text/html', body: Buffer.from(page) },
      [`/pip/${wheel}`]: bytes(fs.readFileSync(at('made', wheel))),
      '/cargo/config.json': json(config),
      '/cargo/api/v1/crates': json({
        crates: [{ name: 'tiny', max_version: '1.0.0', description: 'tiny works' }],
        meta: { total: 1 },
      }),
      '/v2/': json({}),
      '/v2/tiny/manifests/latest': json({ schemaVersion: 2, mediaType: type, config: {}, layers: [] }, type),
    }),
  )
}

const sandbox = new Sandbox({
  cwd: at('work'),
  stateDir: at('state'),
  env: {
    // Nothing of the machine's own settings, which also name certificates.
    ...Object.fromEntries(
      Object.keys(process.env)
        .filter((name) => /CERT|CA_|_CA|SSL/.test(name))
        .map((name) => [name, undefined]),
    ),
    HOME: at('home'),
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
    npm_config_globalconfig: '/dev/null',
    npm_config_update_notifier: 'false',
    PIP_CONFIG_FILE: '/dev/null',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    ...env,
  },
  isolation: {
    filesystem: { write: ['.', at('home')], hide: ['/etc/hosts'] },
    network: {
      allow: [`open.test:${port}`],
      authorities: [authority],
      secrets: {
        TOKEN: { value, hosts: [`api.test:${port}`, `registry.test:${port}`], in: ['authorization', 'body'] },
      },
      requests: { [`rules.test:${port}`]: ['GET /open'] },
    },
  },
})
const results = {}
try {
  for (const { name, files = {}, command } of clients) {
    seen = []
    const directory = at('work', name.replaceAll(/[^\w]+/g, '-'))
    fs.mkdirSync(directory)
    const own = (text) => text.replaceAll('PORT', port)
    for (const [file, text] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(directory, file)), { recursive: true })
      fs.writeFileSync(path.join(directory, file), own(text))
    }
    const began = Date.now()
    const { all, exitCode, denials } = await sandbox
      .exec(`cd ${directory} && (${own(command)}\n)`, { mergeOutput: true, timeout: 60_000 })
      .catch((error) => ({ all: String(error), exitCode: -1 }))
    results[name] = { all, exitCode, denials, seen, ms: Date.now() - began }
  }
  const { stdout } = await sandbox.exec(
    `env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; grep -rl --binary-files=text '${value.slice(0, 20)}' ${at('work')} ${at('home')}`,
  )
  results.session = { all: stdout, exitCode: 0, denials: [], seen: [], ms: 0 }
} finally {
  await sandbox.destroy()
  server.close()
  execFileSync('chmod', ['-R', 'u+rwX', base])
  fs.rmSync(base, { recursive: true, force: true })
}
process.stdout.write(JSON.stringify(results), () => process.exit())
