/** The headers of nacre's own, in lower case. docs/http.md describes them. */

/** The token, where a proxy keeps `Authorization` for itself. */
export const TOKEN_HEADER = 'x-nacre-token'

/** The instance of the server: in every reply, and in requests that only this instance may answer. */
export const INSTANCE_HEADER = 'x-nacre-instance'

/** The hold of the caller on what the request uses. */
export const HOLD_HEADER = 'x-nacre-hold'

/** The caller and the number of a call that survives its connection, as `<caller>/<number>`. */
export const CALL_HEADER = 'x-nacre-call'

/** The numbers of the caller's calls whose replies have arrived, separated by commas. */
export const RECEIVED_HEADER = 'x-nacre-received'
