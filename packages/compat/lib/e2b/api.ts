/** The API of E2B, by which clients create and end sandboxes. */
import os from 'node:os'
import { Secret } from '@nacre/server/internal'
import type { Logger } from 'nacre'
import { report } from 'nacre/internal'
import { HttpError } from '../failure.js'
import { type Hosted, placeOf } from '../hosted.js'
import {
  type Exchange,
  isMessage,
  type Message,
  readJson,
  sendJson,
  sendNothing,
  textsOf,
  timeoutOf,
} from '../http.js'
import { diskSize, measure, metrics } from '../measure.js'
import { type ListedHosts, listHosts, type RecordNetwork } from '../network.js'
import type { Registry } from '../registry.js'
import type { Context } from '../server.js'
import { type E2bRecord, newRecord, renew } from './record.js'

/** SDKs choose features by it. */
const ENVD_VERSION = '0.6.4'
const DEFAULT_TIMEOUT_S = 300
/** Timers cannot wait longer. */
const MOST_PER_PAGE = 100
/** Options that would protect something: without an error, a program would rely on them. */
const REFUSED = ['iam', 'volumeMounts'] as const
/** Of which the service has programs that those of this machine can stand for. */
const TEMPLATES = ['base', 'code-interpreter-v1']
/** All addresses, of IPv4 and of IPv6. */
const EVERYWHERE = '0.0.0.0/0'
const EVERYWHERE_6 = '::/0'

export class Api {
  readonly #registry: Registry<E2bRecord>
  readonly #key: Secret
  readonly #domain: string
  readonly #logger: Logger | undefined
  readonly #templates = new Set(TEMPLATES)

  /** `domain` is what clients put behind the port and the id of a sandbox. */
  constructor({ registry, key, logger }: Context<E2bRecord>, domain: string) {
    this.#registry = registry
    this.#key = new Secret(key)
    this.#domain = domain
    this.#logger = logger
  }

  async serve(exchange: Exchange): Promise<void> {
    const { request, response, url } = exchange
    if (!this.#key.is(String(request.headers['x-api-key'] ?? '')))
      throw new HttpError(
        401,
        'the header X-API-KEY is missing or wrong: set E2B_API_KEY to the key of this server',
      )
    const [what, id, ...rest] = url.pathname
      .replace(/^\/v\d+(?=\/)/, '')
      .split('/')
      .slice(1)
    if (what === 'templates' && id === 'aliases' && rest.length === 1 && request.method === 'GET')
      return this.#findTemplate(decoded(rest[0] ?? ''), response)
    if (what !== 'sandboxes') throw unsupported(exchange)
    if (id === undefined) {
      if (request.method === 'POST') return sendJson(response, 201, this.#shown(await this.#create(exchange)))
      if (request.method === 'GET') return this.#list(exchange)
      throw unsupported(exchange)
    }
    const hosted = this.#registry.get(id)
    if (hosted === undefined) throw new HttpError(404, `Sandbox ${id} not found`)
    await this.#act(`${request.method} ${rest.join('/')}`.trim(), hosted, exchange)
  }

  /** A sandbox may have any template, but programs ask before they build one. */
  #findTemplate(templateID: string, response: Exchange['response']): void {
    if (!this.#templates.has(templateID))
      throw new HttpError(404, `no sandbox of this server has had the template '${templateID}'`)
    sendJson(response, 200, { templateID, public: true })
  }

  async #act(action: string, hosted: Hosted<E2bRecord>, exchange: Exchange): Promise<void> {
    const { request, response } = exchange
    switch (action) {
      case 'GET':
        return sendJson(response, 200, this.#described(hosted))
      case 'DELETE':
        await this.#registry.remove(hosted)
        return sendNothing(response)
      case 'POST timeout': {
        const timeout = timeoutOf((await readJson(request)).timeout, DEFAULT_TIMEOUT_S)
        await this.#registry.renew(hosted, () => {
          hosted.record.endAt = Date.now() + timeout
        })
        return sendNothing(response)
      }
      case 'POST refreshes': {
        const timeout = timeoutOf((await readJson(request)).duration, DEFAULT_TIMEOUT_S)
        await this.#registry.renew(hosted, () => renew(hosted.record, false, timeout, Date.now()))
        return sendNothing(response)
      }
      case 'POST connect':
      case 'POST resume': {
        const given = await readJson(request)
        const timeout = timeoutOf(given.timeout, DEFAULT_TIMEOUT_S)
        const isResumed = await this.#registry.resume(hosted, snapshotOf(given), (isResumed) =>
          renew(hosted.record, isResumed, timeout, Date.now()),
        )
        return sendJson(response, isResumed ? 201 : 200, this.#shown(hosted))
      }
      case 'POST pause':
        if (!(await this.#registry.pause(hosted, snapshotOf(await readJson(request)))))
          throw new HttpError(409, `Sandbox ${hosted.record.id} is paused already`)
        return sendNothing(response)
      case 'GET metrics':
        return sendJson(response, 200, await metricsOf(hosted, exchange.url.searchParams))
      default:
        throw unsupported(exchange)
    }
  }

  async #create({ request }: Exchange): Promise<Hosted<E2bRecord>> {
    const given = await readJson(request)
    for (const name of REFUSED)
      if (!isEmpty(given[name])) throw new HttpError(501, `nacre does not support ${name} of a sandbox`)
    refuseAutoResume(given)
    const template = given.templateID
    if (typeof template !== 'string') throw new HttpError(400, 'templateID must be a string')
    if (!this.#templates.has(template) && this.#templates.size < 1000) {
      this.#templates.add(template)
      report(this.#logger, 'info', `the template '${template}' stands for the programs of this machine`)
    }
    const timeout = timeoutOf(given.timeout, DEFAULT_TIMEOUT_S)
    const record = newRecord(timeout, {
      template,
      metadata: textsOf(given, 'metadata'),
      env: textsOf(given, 'envVars'),
      pausesOnTimeout: given.autoPause === true,
      keepsMemory: given.autoPauseMemory !== false,
      network: networkOf(given.network, given.allow_internet_access === false),
    })
    const hosted = await this.#registry.create(record)
    record.endAt = Date.now() + timeout
    this.#registry.schedule(hosted)
    return hosted
  }

  #list({ response, url }: Exchange): void {
    const query = url.searchParams
    const states = query.getAll('state').flatMap((text) => text.split(','))
    // Names and values are encoded twice.
    const wanted = [...new URLSearchParams(query.get('metadata') ?? '')].map((pair) => pair.map(decoded))
    const limit = Number(query.get('limit') ?? MOST_PER_PAGE)
    if (!(limit >= 1 && limit <= MOST_PER_PAGE))
      throw new HttpError(400, `limit must be 1 to ${MOST_PER_PAGE}`)
    const order = query.get('order') ?? 'desc'
    if (order !== 'asc' && order !== 'desc') throw new HttpError(400, 'order must be asc or desc')
    const startedAfter = new Date(query.get('startedAfter') ?? 0).getTime()
    if (Number.isNaN(startedAfter))
      throw new HttpError(400, 'startedAfter must be a time like 2026-01-31T12:00:00Z')
    const template = query.get('template')
    const after = query.get('nextToken')
    const isBefore = (one: string, other: string) => (order === 'asc' ? one < other : one > other)
    const all = this.#registry
      .list()
      .filter(({ state }) => states.length === 0 || states.includes(state))
      .filter(({ record }) => wanted.every(([name = '', value]) => record.metadata[name] === value))
      .filter(({ record }) => record.startedAt >= startedAfter)
      .filter(({ record }) => template === null || record.template === template)
      .sort((one, other) => (isBefore(placeOf(one), placeOf(other)) ? -1 : 1))
      .filter((hosted) => after === null || isBefore(after, placeOf(hosted)))
    const page = all.slice(0, limit)
    const last = page.at(-1)
    if (page.length < all.length && last !== undefined) response.setHeader('x-next-token', placeOf(last))
    sendJson(
      response,
      200,
      page.map((hosted) => this.#described(hosted)),
    )
  }

  #shown({ record }: Hosted<E2bRecord>) {
    return {
      templateID: record.template,
      sandboxID: record.id,
      clientID: 'nacre',
      envdVersion: ENVD_VERSION,
      envdAccessToken: record.token,
      domain: this.#domain,
    }
  }

  #described(hosted: Hosted<E2bRecord>) {
    const { record, state } = hosted
    return {
      ...this.#shown(hosted),
      state,
      metadata: record.metadata,
      allowInternetAccess: record.network !== 'none',
      lifecycle: { onTimeout: record.pausesOnTimeout ? 'pause' : 'kill', autoResume: false },
      startedAt: new Date(record.startedAt).toISOString(),
      endAt: new Date(record.endAt).toISOString(),
      cpuCount: os.availableParallelism(),
      memoryMB: Math.round(os.totalmem() / 2 ** 20),
      diskSizeMB: Math.round(diskSize(hosted.root) / 2 ** 20),
    }
  }
}

function unsupported({ request, url }: Exchange): HttpError {
  return new HttpError(501, `nacre does not support ${request.method} ${url.pathname}`)
}

/** Processes that a pause has ended could not answer the request that wakes the sandbox. */
function refuseAutoResume({ autoResume }: Message): void {
  if (isMessage(autoResume) && autoResume.enabled === true)
    throw new HttpError(
      501,
      'nacre wakes no sandbox by a request: omit autoResume from the lifecycle, and resume a paused sandbox by connect',
    )
}

/** The SDKs send their mode, and keepMemory and onResume, as `memory`. Throws HttpError. */
function snapshotOf({ memory = true }: Message): 'full' | 'filesystem' {
  if (typeof memory !== 'boolean') throw new HttpError(400, 'memory must be true or false')
  return memory ? 'full' : 'filesystem'
}

/**
 * What a sandbox may reach. What is allowed has precedence over what is denied. A list of what is allowed means that nothing else
 * is, also without a rule that denies it. `isDenied`: as if the rules denied everything. Throws HttpError for rules that nacre does
 * not enforce.
 */
function networkOf(rules: unknown, isDenied: boolean): RecordNetwork {
  const given = isEmpty(rules) ? {} : (rules as Message)
  const { allowOut, denyOut, rules: transforms, allowPublicTraffic, ...rest } = given
  const [allowed, denied] = [rangesOf(allowOut, 'allowOut'), rangesOf(denyOut, 'denyOut')]
  const isNothing = isDenied || denied.includes(EVERYWHERE)
  // A list with one of both leaves the other one open, unless that is denied.
  const isEverything = allowed.includes(EVERYWHERE) || (allowed.includes(EVERYWHERE_6) && !isNothing)
  const hasList = allowed.length > 0 && !isEverything
  const refused =
    Object.keys(rest).find((name) => !isEmpty(rest[name])) ??
    (allowPublicTraffic === false ? 'allowPublicTraffic: false' : undefined) ??
    (denied.length === 0 || isNothing || isEverything ? undefined : `denyOut other than ${EVERYWHERE}`) ??
    (isEmpty(transforms) || hasList ? undefined : 'rules without hosts in allowOut')
  if (refused !== undefined)
    throw new HttpError(501, `nacre does not support network of a sandbox with ${refused}`)
  if (!hasList) return isNothing && !isEverything ? 'none' : 'host'
  return { allow: listHosts(allowed, 'network.allowOut'), headers: headersOf(transforms) }
}

function rangesOf(list: unknown, name: string): unknown[] {
  if (isEmpty(list)) return []
  if (!Array.isArray(list)) throw new HttpError(400, `network.${name} must be a list`)
  return list.map((entry) => (typeof entry === 'string' ? entry.trim() : entry))
}

/** The headers that rules add to requests, by the name of the host. Throws HttpError. */
function headersOf(rules: unknown): ListedHosts['headers'] {
  if (isEmpty(rules)) return {}
  const entries = Object.entries(isMessage(rules) ? rules : {}).map(([host, list]) => {
    const headers: Record<string, string> = {}
    for (const rule of Array.isArray(list) ? list : []) {
      const { transform, ...other } = isMessage(rule) ? rule : {}
      const added = isMessage(transform) ? transform.headers : undefined
      const isPlain = isEmpty(other) && isMessage(transform) && Object.keys(transform).length === 1
      if (!isPlain || !isMessage(added) || JSON.stringify(added).includes('${e2b.'))
        throw new HttpError(501, `nacre does not support rules of ${host} other than constant headers`)
      Object.assign(headers, textsOf({ headers: added }, 'headers'))
      checkHeaders(host, headers)
    }
    return [host.toLowerCase(), headers] as const
  })
  return Object.fromEntries(entries)
}

function checkHeaders(host: string, headers: Record<string, string>): void {
  try {
    new Headers(headers)
  } catch {
    throw new HttpError(400, `network.rules of ${host} must have valid names and values of headers`)
  }
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === null || (typeof value === 'object' && Object.keys(value).length === 0)
  )
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

async function metricsOf({ directory }: Hosted, query: URLSearchParams): Promise<object[]> {
  const now = await measure(directory)
  if (
    now.ts < Number(query.get('start') ?? 0) ||
    now.ts > Number(query.get('end') ?? Number.POSITIVE_INFINITY)
  )
    return []
  return [metrics(now)]
}
