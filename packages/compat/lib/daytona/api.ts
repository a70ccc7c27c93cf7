/** The API of Daytona below /api, by which clients create, start, stop and delete sandboxes. */
import { createHmac } from 'node:crypto'
import type { Logger } from 'nacre'
import { report } from 'nacre/internal'
import { HttpError } from '../failure.js'
import { type Hosted, placeOf } from '../hosted.js'
import {
  type Exchange,
  isMessage,
  type Message,
  parse,
  readJson,
  sendJson,
  sendNothing,
  textsOf,
} from '../http.js'
import { listHosts, type RecordNetwork } from '../network.js'
import type { Registry } from '../registry.js'
import type { Context } from '../server.js'
import { unsupported } from './failure.js'
import { type DaytonaRecord, freshSecret, newRecord, shown, stateOf } from './record.js'
import { decoded, flag, number, optionalText } from './values.js'

const MOST_MINUTES = 2 ** 31
const MOST_PER_PAGE = 200
const MOST_SIGNED_PREVIEWS = 10_000
/** Options that would protect something: without an error, a program would rely on them. */
const REFUSED = ['autoPauseInterval', 'gpu', 'kvm', 'linkedSandbox', 'outboundProxyUrl', 'secrets', 'volumes']
const FILTERS = ['cursor', 'id', 'labels', 'limit', 'name', 'order', 'page', 'snapshots', 'sort', 'states']

type Own = Hosted<DaytonaRecord>

interface SignedPreview {
  id: string
  port: number
  /** Milliseconds since 1970. */
  until: number
}

export class Api {
  readonly #registry: Registry<DaytonaRecord>
  readonly #key: string
  readonly #logger: Logger | undefined
  readonly #port: number
  readonly #toolbox: string
  /** Of sandboxes that are being created. */
  readonly #names = new Set<string>()
  readonly #snapshots = new Set<string>()
  /** By their tokens. */
  readonly #previews = new Map<string, SignedPreview>()

  constructor({ registry, key, port, logger }: Context<DaytonaRecord>, origin: string) {
    this.#registry = registry
    this.#key = key
    this.#logger = logger
    this.#port = port
    this.#toolbox = `${origin}/toolbox`
  }

  async serve(exchange: Exchange): Promise<void> {
    const { request, response, url } = exchange
    const [what, id, ...rest] = url.pathname.split('/').slice(2).map(decoded)
    if (what === 'config' && id === undefined) return sendJson(response, 200, this.#config())
    if (what !== 'sandbox') throw unsupported(request)
    if (id === undefined || id === '') {
      if (request.method === 'POST')
        return sendJson(response, 200, this.shown(await this.#create(await readJson(request))))
      if (request.method === 'GET') return sendJson(response, 200, this.#page(url.searchParams))
    } else if (id === 'paginated' && request.method === 'GET')
      return sendJson(response, 200, this.#numberedPage(url.searchParams))
    else return this.#act(this.find(id), rest, exchange)
    throw unsupported(request)
  }

  shown(hosted: Own, state: string = stateOf(hosted)): object {
    return shown(hosted, this.#toolbox, state)
  }

  /** Throws HttpError. */
  find(idOrName: string): Own {
    const hosted =
      this.#registry.get(idOrName) ?? this.#registry.list().find(({ record }) => record.name === idOrName)
    if (hosted === undefined) throw new HttpError(404, `Sandbox with ID or name ${idOrName} not found`)
    return hosted
  }

  /** Signs addresses of files of the sandbox. It is in no file, which other programs could read. */
  signingKey({ id, rotations }: DaytonaRecord): string {
    return createHmac('sha256', this.#key).update(`files:${id}:${rotations}`).digest('hex')
  }

  /** The sandbox of a preview, by its id or by the token of a signed address. */
  previewed(id: string, port: number): Own | undefined {
    const signed = this.#previews.get(id)
    const isValid = signed !== undefined && signed.port === port && signed.until > Date.now()
    const hosted = this.#registry.get(isValid ? signed.id : id)
    if (hosted !== undefined) this.use(hosted)
    return hosted
  }

  /** Notes that the sandbox has stopped, if nothing else did. */
  stopped(hosted: Own): void {
    this.#save(hosted, { stoppedAt: Date.now() }).catch((error) =>
      report(this.#logger, 'warn', `sandbox ${hosted.record.id} cannot be saved: ${error.message}`),
    )
  }

  /** Puts off the stop. */
  use(hosted: Own): void {
    hosted.record.lastUse = Date.now()
  }

  async #act(hosted: Own, [action = '', given = '', last, ...more]: string[], exchange: Exchange) {
    const { request, response, url } = exchange
    const { record } = hosted
    const { method } = request
    const reply = () => sendJson(response, 200, this.shown(hosted))
    if (method !== 'GET') this.use(hosted)
    switch (`${method} ${action}`.trim()) {
      case 'GET':
        return reply()
      case 'DELETE':
        await this.#registry.remove(hosted)
        return sendJson(response, 200, this.shown(hosted, 'destroyed'))
      case 'POST start':
      case 'POST recover':
        await this.#registry.resume(hosted, 'shells', () => this.use(hosted))
        return reply()
      case 'POST stop':
        if (!(await this.#registry.pause(hosted, 'shells')))
          throw new HttpError(400, 'Sandbox is not started')
        if (record.autoDelete !== 0) return reply()
        await this.#registry.remove(hosted)
        return sendJson(response, 200, this.shown(hosted, 'destroyed'))
      case 'PUT labels': {
        const labels = textsOf(await readJson(request), 'labels')
        await this.#save(hosted, { labels })
        return sendJson(response, 200, { labels })
      }
      case 'POST autostop':
        await this.#save(hosted, { autoStop: minutes(given) })
        return reply()
      case 'POST autodelete':
        await this.#save(hosted, { autoDelete: number(given, 'the interval', -MOST_MINUTES, MOST_MINUTES) })
        return reply()
      case 'POST autoarchive':
        await this.#save(hosted, { autoArchive: minutes(given) })
        return reply()
      case 'POST ttl':
        await this.#save(hosted, { ttl: minutes(given) })
        return reply()
      case 'POST public':
        await this.#save(hosted, { isPublic: given === 'true' })
        return reply()
      case 'POST last-activity':
        return sendNothing(response, 201)
      case 'GET toolbox-proxy-url':
        return sendJson(response, 200, { url: this.#toolbox })
      case 'GET signing-key':
        return sendJson(response, 200, this.signingKey(record))
      case 'POST signing-key':
        if (given !== 'rotate') break
        await this.#save(hosted, { rotations: record.rotations + 1 })
        return sendJson(response, 200, this.signingKey(record))
      case 'GET ports': {
        const port = number(given, 'the port', 1, 65_535)
        if (last === 'preview-url')
          return sendJson(response, 200, {
            sandboxId: record.id,
            url: this.#previewUrl(port, record.id),
            token: record.id,
          })
        if (last === 'signed-preview-url')
          return sendJson(response, 200, this.#sign(hosted, port, url.searchParams))
        break
      }
      case 'POST ports':
        if (last !== 'signed-preview-url' || more[1] !== 'expire') break
        if (this.#previews.get(more[0] ?? '')?.id === record.id) this.#previews.delete(more[0] ?? '')
        return sendNothing(response)
    }
    throw unsupported(request)
  }

  async #create(given: Message): Promise<Own> {
    for (const name of REFUSED)
      if (!isEmpty(given[name])) throw new HttpError(501, `nacre does not support ${name} of a sandbox`)
    const name = optionalText(given, 'name')
    const isTaken = (other: string) => this.#registry.list().some(({ record }) => record.name === other)
    if (name !== undefined && (this.#names.has(name) || isTaken(name)))
      throw new HttpError(409, `Sandbox with name ${name} already exists`)
    const { buildInfo } = given
    const image = isMessage(buildInfo) ? optionalText(buildInfo, 'dockerfileContent') : undefined
    const snapshot = optionalText(given, 'snapshot') ?? image?.slice(0, 200) ?? 'local'
    if (!this.#snapshots.has(snapshot) && this.#snapshots.size < 1000) {
      this.#snapshots.add(snapshot)
      report(this.#logger, 'info', `the snapshot '${snapshot}' stands for the programs of this machine`)
    }
    const record = newRecord(
      {
        labels: textsOf(given, 'labels'),
        env: textsOf(given, 'env'),
        user: optionalText(given, 'user') ?? 'daytona',
        snapshot,
        isPublic: flag(given, 'public'),
        network: networkOf(given),
        autoStop: minutes(given.autoStopInterval ?? 15),
        autoArchive: minutes(given.autoArchiveInterval ?? 10_080),
        autoDelete: number(given.autoDeleteInterval ?? -1, 'autoDeleteInterval', -1, MOST_MINUTES),
        ttl: minutes(given.ttlMinutes ?? 0),
      },
      name,
    )
    this.#names.add(record.name)
    try {
      const hosted = await this.#registry.create(record)
      this.#registry.schedule(hosted)
      return hosted
    } finally {
      this.#names.delete(record.name)
    }
  }

  async #save(hosted: Own, changes: Partial<DaytonaRecord>): Promise<void> {
    Object.assign(hosted.record, changes)
    this.#registry.schedule(hosted)
    await this.#registry.save(hosted)
  }

  /** `cursor` is the place of the last one that the client has. */
  #page(query: URLSearchParams) {
    const all = this.#matching(query)
    const cursor = query.get('cursor')
    const from = cursor === null ? 0 : all.findIndex((hosted) => hosted.record.id === cursor) + 1
    const page = all.slice(from, from + number(query.get('limit') ?? 100, 'limit', 1, MOST_PER_PAGE))
    const hasMore = from + page.length < all.length
    const nextCursor = hasMore ? page.at(-1)?.record.id : null
    return { items: page.map((hosted) => this.shown(hosted)), nextCursor }
  }

  /** For older SDKs. */
  #numberedPage(query: URLSearchParams) {
    const all = this.#matching(query)
    const page = number(query.get('page') ?? 1, 'page', 1, MOST_MINUTES)
    const limit = number(query.get('limit') ?? 100, 'limit', 1, MOST_PER_PAGE)
    const items = all.slice((page - 1) * limit, page * limit).map((hosted) => this.shown(hosted))
    return { items, total: all.length, page, totalPages: Math.ceil(all.length / limit) }
  }

  #matching(query: URLSearchParams): Own[] {
    const wrong = [...query.keys()].find((name) => !FILTERS.includes(name))
    if (wrong !== undefined) throw new HttpError(501, `nacre does not support the filter ${wrong}`)
    const labels = Object.entries(textsOf({ labels: parse(query.get('labels') ?? '') }, 'labels'))
    const sort = query.get('sort') ?? 'createdAt'
    const keys = { createdAt: placeOf, name: ({ record }: Own) => record.name }
    if (sort !== 'createdAt' && sort !== 'name')
      throw new HttpError(501, `nacre sorts by createdAt and name, not by ${sort}`)
    const direction = query.get('order') === 'asc' ? 1 : -1
    const states = listOf(query, 'states')
    const snapshots = listOf(query, 'snapshots')
    return this.#registry
      .list()
      .filter(({ record }) => record.id.startsWith(query.get('id') ?? ''))
      .filter(({ record }) => record.name.startsWith(query.get('name') ?? ''))
      .filter(({ record }) => labels.every(([name, value]) => record.labels[name] === value))
      .filter(({ record }) => snapshots.length === 0 || snapshots.includes(record.snapshot))
      .filter((hosted) => states.length === 0 || states.includes(stateOf(hosted)))
      .sort((one, other) => (keys[sort](one) < keys[sort](other) ? -direction : direction))
  }

  #sign({ record }: Own, port: number, query: URLSearchParams) {
    const seconds = number(query.get('expiresInSeconds') ?? 60, 'expiresInSeconds', 1, 86_400)
    const token = freshSecret()
    this.#previews.set(token, { id: record.id, port, until: Date.now() + seconds * 1000 })
    const [oldest] = this.#previews.keys()
    if (this.#previews.size > MOST_SIGNED_PREVIEWS && oldest !== undefined) this.#previews.delete(oldest)
    return { sandboxId: record.id, port, url: this.#previewUrl(port, token), token }
  }

  #previewUrl(port: number | string, id: string): string {
    return `http://${port}-${id}.localhost:${this.#port}`
  }

  #config() {
    return {
      version: 'nacre',
      oidc: { issuer: this.#toolbox, clientId: 'nacre', audience: 'nacre' },
      linkedAccountsEnabled: false,
      announcements: {},
      proxyTemplateUrl: this.#previewUrl('{{PORT}}', '{{sandboxId}}'),
      proxyToolboxUrl: this.#toolbox,
      defaultSnapshot: 'local',
      dashboardUrl: this.#toolbox,
      maxAutoArchiveInterval: 43_200,
      maintananceMode: false,
      environment: 'local',
    }
  }
}

function minutes(given: unknown): number {
  return number(given, 'the interval', 0, MOST_MINUTES)
}

function isEmpty(value: unknown): boolean {
  return !value || (typeof value === 'object' && Object.keys(value).length === 0)
}

/** In a query, lists have one member for each item, or commas. */
function listOf(query: URLSearchParams, name: string): string[] {
  return query.getAll(name).flatMap((text) => text.split(','))
}

/** What a sandbox may reach. The lists are texts, with commas. */
function networkOf(given: Message): RecordNetwork {
  if (flag(given, 'networkBlockAll')) return 'none'
  const allow = ['domainAllowList', 'networkAllowList'].flatMap((name) => {
    const text = optionalText(given, name)
    return isEmpty(text) || text === '' ? [] : listHosts((text ?? '').split(','), name)
  })
  return allow.length === 0 ? 'host' : { allow, headers: {} }
}
