/** Serves a sandbox, and a page with a terminal in it. */
import { randomBytes } from 'node:crypto'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { servePage } from './page.js'

const page = await servePage(Number(process.env.PORT ?? 0))
const token = randomBytes(24).toString('base64url')
const sandbox = new Sandbox()
// The page has a different origin from the API, which must therefore allow it.
const api = await serve(sandbox, { port: 0, token, allowedOrigins: [page.origin] })

// Browsers do not send the part after the #, so the token stays out of logs.
const settings = new URLSearchParams({ api: api.url, token })
console.log(`open ${page.origin}/#${settings}`)
// `serve` handles Ctrl-C: it ends the terminals, the sandbox and this program.
