/** A terminal in the page. It survives page reloads and lost connections: the process keeps running meanwhile. */
import { FitAddon } from '/addon-fit.js'
import { Terminal } from '/xterm.js'

const settings = new URLSearchParams(location.hash.slice(1))
const api = settings.get('api')
const token = settings.get('token')
/** Milliseconds before the next attempt to connect. */
const RETRY_MS = 500

const terminal = new Terminal({
  cursorBlink: true,
  fontSize: 14,
  lineHeight: 1.2,
  theme: { background: '#10151c' },
})
const fit = new FitAddon()
terminal.loadAddon(fit)
terminal.open(document.querySelector('#terminal'))
fit.fit()

const encoder = new TextEncoder()
/** Bytes of the process's output that the terminal has received, or that were lost. */
let received = 0
let socket

terminal.onData((text) => send(encoder.encode(text)))
terminal.onBinary((bytes) => send(Uint8Array.from(bytes, (character) => character.charCodeAt(0))))
terminal.onResize(({ cols, rows }) => send(JSON.stringify({ resize: { cols, rows } })))
addEventListener('resize', () => fit.fit())

const id = await openProcess()
connect()
terminal.focus()

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(message)
}

/** Finds the process of this tab: the process from before a reload, or a new one. */
async function openProcess() {
  const known = sessionStorage.getItem('process')
  if (known !== null && (await request('GET', `/v1/processes/${known}`)).ok) return known
  const pty = { cols: terminal.cols, rows: terminal.rows }
  const response = await request('POST', '/v1/processes', { command: 'exec bash --norc', pty })
  const process = await response.json()
  if (!response.ok) throw new Error(process.message)
  sessionStorage.setItem('process', process.id)
  return process.id
}

function request(method, path, body) {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
  return fetch(api + path, { method, headers, body: body && JSON.stringify(body) })
}

function connect() {
  const url = `${api.replace('http', 'ws')}/v1/processes/${id}/terminal?cursor=${received}`
  // A page cannot set headers of a WebSocket, so the token is a subprotocol.
  socket = new WebSocket(url, ['nacre.terminal', `nacre.token.${encodeURIComponent(token)}`])
  socket.binaryType = 'arraybuffer'
  socket.onopen = () => {
    showStatus('connected')
    // The window size may have changed since before the reload.
    send(JSON.stringify({ resize: { cols: terminal.cols, rows: terminal.rows } }))
  }
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) {
      received += data.byteLength
      terminal.write(new Uint8Array(data))
    } else {
      received += JSON.parse(data).missing ?? 0
    }
  }
  socket.onclose = ({ code, reason }) => {
    if (code === 1000) {
      const { exitCode, signal } = JSON.parse(reason)
      sessionStorage.removeItem('process')
      showStatus(`ended with ${signal ?? `exit code ${exitCode}`}; reload for a new one`)
    } else {
      showStatus('connection lost, trying again')
      setTimeout(connect, RETRY_MS)
    }
  }
}

function showStatus(text) {
  document.querySelector('#status').textContent = text
}
