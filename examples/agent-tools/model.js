/**
 * A stand-in for the model, so that the example runs offline: a script of calls. Replace the body of `askModel` with a
 * request to a model that sends `messages` and the descriptions of `tools`. The rest of the example stays the same.
 */
const SERVER = `const http = require('node:http')
http.createServer((request, response) => {
  console.log(request.method, request.url)
  response.end('hello')
}).listen(8080, '127.0.0.1')
`

const SCRIPT = [
  call('run', { command: 'mkdir -p site && cd site && export PORT=8080' }),
  call('write_file', { file: 'server.cjs', content: SERVER }),
  // The directory is still `site`, and PORT is still set.
  call('start_server', { name: 'web', command: 'node server.cjs', port: 8080 }),
  call('run', {
    command: `node -e 'fetch("http://127.0.0.1:" + process.env.PORT + "/health")' && pwd -P | sed 's:.*/::'`,
  }),
  call('server_log', { name: 'web' }),
  // Much more output than the budget allows. The log has all of it.
  call('run', {
    command: 'for i in {1..20000}; do echo "request $i ok"; done; echo "request 20001 FAILED"; exit 3',
  }),
  (result) => call('run', { command: `grep -c ok ${/output is in (.*)$/.exec(result)[1]}` }),
  // Mistakes are results too, and the session survives them.
  call('run', { command: 'echo "never closed' }),
  call('run', { command: 'echo waiting; sleep 60', timeout: 300 }),
  call('run', { command: 'touch /usr/local/owned; echo "PORT is still $PORT"' }),
  call('stop_server', { name: 'web' }),
]

export async function askModel(messages, _tools) {
  const turn = messages.filter(({ role }) => role === 'assistant').length
  const step = SCRIPT[turn] ?? { role: 'assistant', content: `done after ${turn} calls` }
  return typeof step === 'function' ? step(messages.at(-1).content) : step
}

function call(tool, input) {
  return { role: 'assistant', call: { tool, input } }
}
