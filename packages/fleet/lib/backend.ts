/** The server of a sandbox of a fleet, whose calls are published to the tracing channels as those of a local sandbox are. */
import type { Logger } from 'nacre'
import { type ExecRequest, type Result, TOKEN_HEADER, tracedExec } from 'nacre/internal'
import { HttpBackend, type Route } from 'nacre/internal/client'

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
      headers: token === undefined ? {} : { [TOKEN_HEADER]: token },
      fetch: (input, init) => fetch(input, init),
    })
    this.#sandboxId = route.name
  }

  override traced(request: ExecRequest, perform: (request: ExecRequest) => Promise<Result>): Promise<Result> {
    return tracedExec(request, perform, this.#sandboxId)
  }
}
