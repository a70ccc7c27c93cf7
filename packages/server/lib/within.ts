/** True when the promise is fulfilled in time. */
export async function within(milliseconds: number, promise: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), milliseconds)
  })
  const done = promise.then(
    () => true,
    () => false,
  )
  const isInTime = await Promise.race([done, late])
  clearTimeout(timer)
  return isInTime
}
