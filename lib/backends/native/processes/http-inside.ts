/**
 * Requests a page from a server inside its session, if the session has its own network namespace and this process cannot
 * connect.
 */
import type { Engine } from '../engine.js'
import { succeedsHidden } from './hidden-command.js'

/** Exits with 0 if the response status is within the bounds. bash itself connects, so no other program is needed. */
const SCRIPT = `
exec 3<>"/dev/tcp/127.0.0.1/$NACRE_PORT" || exec 3<>"/dev/tcp/::1/$NACRE_PORT" || exit 1
printf 'GET %s HTTP/1.1\\r\\nHost: localhost:%s\\r\\nConnection: close\\r\\n\\r\\n' "$NACRE_PATH" "$NACRE_PORT" >&3
read -rt 5 _ status _ <&3
[[ $status =~ ^[1-5][0-9][0-9]$ ]] && ((status >= NACRE_MIN && status <= NACRE_MAX))
`

/** Whether the server answers with such a status. Redirects are not followed. */
export function servesInside(
  engine: Engine,
  sessionId: string,
  port: number,
  { path, status }: { path: string; status: { min: number; max: number } },
  stop: AbortSignal,
): Promise<boolean> {
  const variables = {
    NACRE_PORT: String(port),
    NACRE_PATH: path,
    NACRE_MIN: String(status.min),
    NACRE_MAX: String(status.max),
  }
  const envNames = Object.keys(variables)
  const command = { sessionId, envNames, envValues: Object.values(variables), command: `GET ${path}` }
  // A clean bash: the session's own shell could have functions and traps that interfere.
  return succeedsHidden(engine, { ...command, argv: ['bash', '--norc', '-c', SCRIPT] }, stop)
}
