/** Programs that use a secret, as people use them. Each gets a token from the server of clients-runner.mjs accepted. */

export interface Client {
  name: string
  files?: Record<string, string>
  /** A shell command. PORT is the port of all hosts. */
  command: string
  /** What it prints. */
  prints: RegExp
  /**
   * What it needs besides variables: `trust` reads only the certificates of the machine, `route` does not know of proxies, and
   * `root` cannot be read by an ordinary user.
   */
  needs?: 'trust' | 'route' | 'root'
  /** Its requests need no token. */
  isAnonymous?: boolean
}

const api = 'https://api.test:PORT'
const me = /"login": ?"me"/
const header = '-H "Authorization: Bearer $TOKEN"'
const fetching = `const reply = await fetch('${api}/user', { headers: { authorization: 'Bearer ' + process.env.TOKEN } })
console.log(reply.status, await reply.text())`
/** Java has options for a proxy, and no variables. */
const javaProxy =
  '$(echo "$HTTPS_PROXY" | sed -nE "s#.*//([^:/]*):([0-9]+).*#-Dhttps.proxyHost=\\1 -Dhttps.proxyPort=\\2#p")'
const npmrc = '//registry.test:PORT/npm/:_authToken=${TOKEN}\nregistry=https://registry.test:PORT/npm/\n'
const project = (more: object = {}) => JSON.stringify({ name: 'app', version: '1.0.0', ...more })
const dependent = project({ dependencies: { tiny: '1.0.0' } })
const printTiny = 'console.log(require("tiny"))'
const python = (text: string) => `import os, asyncio
h = {'Authorization': 'Bearer ' + os.environ['TOKEN']}
u = '${api}/user'
${text}`
const index = 'https://me:$TOKEN@registry.test:PORT/simple/'

export const clients: Client[] = [
  { name: 'curl, HTTP/2', command: `curl -sS ${header} ${api}/user`, prints: /"me","version":"2.0"/ },
  {
    name: 'curl, HTTP/1.1',
    command: `curl -sS --http1.1 ${header} ${api}/user`,
    prints: /"me","version":"1.1"/,
  },
  {
    name: 'curl, HTTP/1.0',
    command: `curl -sS --http1.0 ${header} ${api}/user`,
    prints: /"me","version":"1.1"/,
  },
  { name: 'curl, Basic', command: `curl -sS -u me:$TOKEN ${api}/user`, prints: me },
  {
    name: 'curl, SOCKS',
    command: `curl -sS --socks5-hostname "\${HTTPS_PROXY#http://}" ${header} ${api}/user`,
    prints: me,
  },
  {
    name: 'curl, a host that stays opaque',
    command: 'curl -sS https://open.test:PORT/open',
    prints: /world/,
    isAnonymous: true,
  },
  {
    name: 'curl, an echo',
    command: `curl -sS ${header} ${api}/echo | grep -c "Bearer $TOKEN"`,
    prints: /^1$/m,
  },
  {
    name: 'curl, a secret in a body of chunks',
    command: `echo "{\\"token\\":\\"$TOKEN\\"}" | curl -sS -T - ${header} -H 'Transfer-Encoding: chunked' --http1.1 ${api}/echo`,
    prints: /"hasValue":true.*ghp_/,
  },
  {
    name: 'curl, an upload with Expect',
    command: `head -c 3000000 /dev/zero > file; curl -sS -H 'Expect: 100-continue' --http1.1 ${header} --data-binary @file ${api}/echo`,
    prints: /"length":3000000/,
  },
  {
    // The second request goes out when the first event has arrived.
    name: 'curl, events',
    command: `curl -sSN ${header} ${api}/events | while read -r line; do echo "$line"; case $line in *Bearer*) curl -sS ${header} ${api}/next > next;; esac; done`,
    prints: /data: end/,
  },
  {
    name: 'curl, rules',
    command: 'curl -sS https://rules.test:PORT/open https://rules.test:PORT/user',
    prints: /world[\s\S]*does not allow GET https:\/\/rules.test:\d+\/user/,
    isAnonymous: true,
  },
  {
    name: 'wget',
    command: `wget -qO- --header "Authorization: Bearer $TOKEN" ${api}/user`,
    prints: me,
    needs: 'trust',
  },
  {
    name: 'git clone',
    command: 'git clone -q https://me:$TOKEN@registry.test:PORT/git/r.git copy && wc -c copy/file',
    prints: /3000000/,
  },
  {
    name: 'git push',
    command: `git clone -q https://me:$TOKEN@registry.test:PORT/git/r.git copy && cd copy && git config user.email a@example.com && git config user.name a &&
head -c 2000000 /dev/urandom > more && git add more && git commit -qm two && git push origin HEAD:two 2>&1`,
    prints: /HEAD -> two/,
  },
  {
    name: 'node, undici',
    files: {
      'a.mjs': `import { createRequire } from 'node:module'
const { EnvHttpProxyAgent, setGlobalDispatcher, fetch } = createRequire(process.env.MODULES)('undici')
setGlobalDispatcher(new EnvHttpProxyAgent())
${fetching}`,
    },
    command: 'node --no-warnings a.mjs',
    prints: me,
  },
  {
    name: 'node, fetch',
    files: { 'a.mjs': fetching },
    command: 'node --no-warnings a.mjs',
    prints: me,
    needs: 'route',
  },
  {
    name: 'node, axios',
    files: {
      'a.cjs': `const { createRequire } = require('node:module')
const axios = createRequire(process.env.MODULES)('axios')
axios.get('${api}/user', { headers: { authorization: 'Bearer ' + process.env.TOKEN } }).then(({ data }) => console.log(JSON.stringify(data)), console.log)`,
    },
    command: 'node a.cjs',
    prints: me,
  },
  {
    name: 'node, got',
    files: {
      'a.mjs': `import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
const { default: got } = await import(pathToFileURL(createRequire(process.env.MODULES).resolve('got')))
console.log(await got('${api}/user', { headers: { authorization: 'Bearer ' + process.env.TOKEN } }).text())`,
    },
    command: 'node a.mjs',
    prints: me,
    needs: 'route',
  },
  {
    name: 'node, a WebSocket',
    files: {
      'a.cjs': `const load = require('node:module').createRequire(process.env.MODULES)
const WebSocket = load('ws')
const { HttpsProxyAgent } = load('https-proxy-agent')
const options = { agent: new HttpsProxyAgent(process.env.HTTPS_PROXY), headers: { authorization: 'Bearer ' + process.env.TOKEN } }
const socket = new WebSocket('wss://api.test:PORT/socket', options)
socket.on('open', () => socket.send('hello')).on('message', (text) => (console.log('got', String(text)), socket.close())).on('error', console.log)`,
    },
    command: 'node a.cjs',
    prints: /got hello/,
  },
  {
    name: 'node, gRPC',
    files: {
      'a.cjs': `const grpc = require('node:module').createRequire(process.env.MODULES)('@grpc/grpc-js')
const same = (one) => one
const client = new grpc.Client('api.test:PORT', grpc.credentials.createSsl())
const metadata = new grpc.Metadata()
metadata.set('authorization', 'Bearer ' + process.env.TOKEN)
const reply = (error, data) => (console.log(error?.message ?? String(data)), client.close())
const call = client.makeUnaryRequest('/pkg.Echo/Say', same, same, Buffer.from('hello'), metadata, { deadline: Date.now() + 30_000 }, reply)
call.on('status', ({ code, metadata }) => console.log('status', code, metadata.get('x-echo')[0] === 'Bearer ' + process.env.TOKEN))`,
    },
    command: 'node a.cjs',
    prints: /hello[\s\S]*status 0 true|status 0 true[\s\S]*hello/,
  },
  { name: 'bun, fetch', files: { 'a.mjs': fetching }, command: 'bun a.mjs', prints: me },
  {
    name: 'deno, fetch',
    files: { 'a.mjs': fetching },
    command: 'DENO_NO_UPDATE_CHECK=1 DENO_DIR=$PWD/cache deno run --allow-all --no-config a.mjs',
    prints: me,
  },
  {
    name: 'python, urllib',
    files: {
      'a.py': python('import urllib.request as r; print(r.urlopen(r.Request(u, headers=h)).read().decode())'),
    },
    command: 'python3 a.py',
    prints: me,
  },
  {
    name: 'python, requests',
    files: { 'a.py': python('import requests; print(requests.get(u, headers=h).text)') },
    command: '"$PYTHON" a.py',
    prints: me,
    needs: 'root',
  },
  {
    name: 'python, httpx',
    files: {
      'a.py': python(
        'import httpx; c = httpx.Client(http2=True); r = c.get(u, headers=h); print(r.http_version, r.text)',
      ),
    },
    command: '"$PYTHON" a.py',
    prints: /HTTP\/2 .*"me"/,
    needs: 'root',
  },
  {
    name: 'python, aiohttp',
    files: {
      'a.py': python(`import aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as s, s.get(u, headers=h) as r: print(await r.text())
asyncio.run(main())`),
    },
    command: '"$PYTHON" a.py',
    prints: me,
    needs: 'root',
  },
  {
    name: 'pip download',
    command: `"$PYTHON" -m pip -q download --no-cache-dir --no-deps --index-url ${index} tiny -d p && ls p`,
    prints: /tiny-1.0.0-py3-none-any.whl/,
    needs: 'root',
  },
  {
    name: 'uv pip install',
    command: `UV_CACHE_DIR=$PWD/cache uv pip install -q --target u --index-url ${index} tiny && cat u/tiny.py`,
    prints: /tiny works/,
  },
  {
    name: 'npm install',
    files: { '.npmrc': npmrc, 'package.json': project() },
    command: `npm install --cache $PWD/cache --no-audit --no-fund tiny && node -e '${printTiny}'`,
    prints: /tiny works/,
  },
  {
    name: 'npm publish',
    files: { '.npmrc': npmrc, 'package.json': JSON.stringify({ name: 'tiny', version: '1.0.1' }) },
    command: 'npm publish --cache $PWD/cache',
    prints: /\+ tiny@1.0.1/,
  },
  {
    name: 'pnpm install',
    // It takes variables from the user's own settings alone.
    files: { 'user/.npmrc': npmrc, 'package.json': dependent },
    command: `export npm_config_userconfig=$PWD/user/.npmrc npm_config_store_dir=$PWD/store && pnpm install && node -e '${printTiny}'`,
    prints: /tiny works/,
  },
  {
    name: 'yarn install',
    files: {
      'package.json': dependent,
      'yarn.lock': '',
      '.yarnrc.yml':
        'npmRegistryServer: "https://registry.test:PORT/npm"\nnpmAuthToken: "${TOKEN}"\nnpmAlwaysAuth: true\nenableTelemetry: false\nenableGlobalCache: false\nnodeLinker: node-modules\nnpmMinimalAgeGate: 0\n',
    },
    command: `yarn install && node -e '${printTiny}'`,
    prints: /tiny works/,
    needs: 'route',
  },
  {
    name: 'bun install',
    files: { '.npmrc': npmrc, 'package.json': dependent },
    command: `BUN_INSTALL_CACHE_DIR=$PWD/cache bun install && node -e '${printTiny}'`,
    prints: /tiny works/,
  },
  {
    name: 'cargo search',
    files: {
      '.cargo/config.toml':
        '[registries.t]\nindex = "sparse+https://registry.test:PORT/cargo/"\n[registry]\nglobal-credential-providers = ["cargo:token"]\n',
    },
    command: 'CARGO_HOME=$PWD/home CARGO_REGISTRIES_T_TOKEN=$TOKEN cargo search --registry t tiny',
    prints: /tiny works/,
    needs: 'root',
  },
  {
    name: 'gh api',
    command: `GH_ENTERPRISE_TOKEN=$TOKEN GH_HOST=api.test:PORT GH_CONFIG_DIR=$PWD/gh gh api ${api}/user`,
    prints: me,
  },
  {
    name: 'go',
    files: {
      'a.go': `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	request, _ := http.NewRequest("GET", "${api}/user", nil)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, _ := io.ReadAll(reply.Body)
	fmt.Println(reply.Proto, string(text))
}
`,
    },
    command: 'CGO_ENABLED=0 GOCACHE=${GOCACHE:-$PWD/cache} GO111MODULE=off go run a.go',
    prints: /HTTP\/2.0 .*"me"/,
  },
  {
    name: 'java, both clients',
    files: {
      'A.java': `import java.net.URI;
import java.net.http.*;

class A {
  public static void main(String[] words) throws Exception {
    var bearer = "Bearer " + System.getenv("TOKEN");
    var connection = URI.create("${api}/user").toURL().openConnection();
    connection.setRequestProperty("Authorization", bearer);
    System.out.println(new String(connection.getInputStream().readAllBytes()));
    var client = HttpClient.newBuilder().proxy(java.net.ProxySelector.getDefault()).build();
    var request = HttpRequest.newBuilder(URI.create("${api}/user")).header("Authorization", bearer).build();
    var reply = client.send(request, HttpResponse.BodyHandlers.ofString());
    System.out.println(reply.version() + " " + reply.body());
  }
}
`,
    },
    command: `java ${javaProxy} A.java`,
    prints: /"me","version":"1.1"[\s\S]*HTTP_2 .*"me"/,
  },
  {
    name: 'ruby',
    command: `ruby -e 'require "net/http"; r = Net::HTTP.get_response(URI("${api}/user"), { "Authorization" => "Bearer #{ENV["TOKEN"]}" }); puts r.code, r.body'`,
    prints: me,
  },
  {
    name: 'php',
    command: `php -r '$c = stream_context_create(["http" => ["header" => "Authorization: Bearer " . getenv("TOKEN")]]); echo file_get_contents("${api}/user", false, $c);'`,
    prints: me,
    needs: 'route',
  },
  {
    name: 'perl',
    command: `perl -MLWP::UserAgent -e '$u = LWP::UserAgent->new(env_proxy => 1); print $u->get("${api}/user", Authorization => "Bearer $ENV{TOKEN}")->content'`,
    prints: me,
  },
  {
    name: 'skopeo',
    command: 'skopeo inspect --raw --creds me:$TOKEN docker://registry.test:PORT/tiny:latest',
    prints: /"schemaVersion":2/,
  },
]
