import { inTime } from 'nacre/internal'

/** True when the promise is fulfilled in time. */
export async function within(milliseconds: number, promise: Promise<unknown>): Promise<boolean> {
  return (await inTime(milliseconds, promise).catch(() => undefined)) !== undefined
}
