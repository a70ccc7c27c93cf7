/** The server of a sandbox of a fleet, whose calls are published to the tracing channels as those of a local sandbox are. */
import { HttpBackend } from '../backends/http/backend.js'
import { tokenHeaders } from '../backends/http/options.js'
import type { Route } from '../backends/http/route.js'
import { tracedExec } from '../backends/native/traced-exec.js'
import { TOKEN_HEADER } from '../protocol/headers.js'
import type { Logger } from '../public/index.js'
import type { ExecRequest } from '../requests/exec.js'
import type { Result } from '../run/run.js'

/** The settings of a fleet. Times are in milliseconds. */
export interface FleetPlan {
  token: string | undefined
  ttl: number
  createTimeout: number
  requestTimeout: number
  reconnectTimeout: number
  logger: Logger | undefined
}

export class FleetBackend extends HttpBackend {
  readonly #sandboxId: string

  constructor(route: Route, { token, requestTimeout, reconnectTimeout, logger }: FleetPlan) {
    super({
      ...{ route, requestTimeout, reconnectTimeout, logger, resume: true },
      headers: tokenHeaders(token, TOKEN_HEADER),
      fetch: (input, init) => fetch(input, init),
    })
    this.#sandboxId = route.name
  }

  override traced(request: ExecRequest, perform: (request: ExecRequest) => Promise<Result>): Promise<Result> {
    return tracedExec(request, perform, this.#sandboxId)
  }
}
