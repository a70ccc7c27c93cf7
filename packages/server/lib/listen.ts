/** Listening, with a remedy where that fails. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'nacre'
import { report } from 'nacre/internal'

/** Listens, and logs later errors. `option` is the name of the port. Rejects with the reason and a remedy. */
export function listen(
  listener: Server,
  place: { host: string; port: number },
  option: string,
  logger: Logger | undefined,
): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const fail = (cause: Error) => reject(listenError(cause, place, option))
    listener.once('error', fail)
    listener.listen(place.port, place.host, () => {
      listener.off('error', fail)
      listener.on('error', (error) => report(logger, 'error', `the listener failed: ${error}`))
      resolve(listener.address() as AddressInfo)
    })
  })
}

/** The error of a server that cannot listen, with a remedy. */
export function listenError(
  cause: Error,
  { host, port }: { host: string; port: number },
  option: string,
): Error {
  const { code } = cause as NodeJS.ErrnoException
  const text = `${option} ${port} cannot be used on ${host}: ${cause.message}; ${remedyOf(code, port, option)}`
  return Object.assign(new Error(text, { cause }), { code, syscall: 'listen' })
}

function remedyOf(code: string | undefined, port: number, option: string): string {
  // A free port is there, so the host cannot be used. Bun has other codes for that.
  if (port === 0 || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return 'choose an address of this machine as the host'
  if (code === 'EACCES') return `choose a higher ${option}: this user may not use low ones`
  return `choose another ${option}, or 0 for a free port`
}
