/**
 * What other packages of nacre share with the server. They need exactly their own version of the server, and anything here
 * may change in any release.
 */

export { collect } from './body-limit.js'
export type { ByteReply } from './byte-response.js'
export { Refusal } from './failure.js'
export { Guard, headerFields, isLoopback, isLoopbackName } from './guard.js'
export { listen, listenError } from './listen.js'
export { endAfterReplies, type ListenerEnd, replay, wantsWebSocket } from './listener.js'
export * as passHttp from './ports/pass-http.js'
export { Requests } from './requests.js'
export type { OpenSandboxd } from './sandboxd.js'
export { Secret } from './secret.js'
export { fileReply } from './v1/file-content.js'
