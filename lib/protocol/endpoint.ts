/** What both ends of a request share: where it goes, and what it has. */
import type { CallTable, CompleteValues } from '../schema/kind.js'
import { readWithDefaults } from '../schema/read.js'
import type { Body } from '../schema/reply.js'

/** A request with one reply. */
export interface Endpoint<T, Path extends string = string> {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** With the names of its parameters in braces. */
  path: Path
  reply: Body<T>
  /** The reply waits for an event and may take hours: longer than clients and proxies wait for a response. */
  waits: boolean
}

type NamesIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never

/** The parameters of a path like `/v1/jobs/{jobId}`. */
export type ParamsOf<Path> = { [K in NamesIn<Path>]: K extends 'number' ? number : string }

interface Traits {
  summary: string
  /** What an abort ends, for messages. */
  subject?: string
  /** An abort cancels the call on the server, whose reply tells whether that was in time. */
  isCancelled?: true
  /** A POST that may be repeated. */
  isIdempotent?: true
}

/**
 * A call that is checked, sent and answered as JSON, and nothing else. The interface of backends, the methods of the client
 * and the routes of the server are made from it, so it is written once.
 */
export interface SimpleCall<T, Path extends string, Args, Options, Required>
  extends Endpoint<T, Path>,
    Traits {
  errors: string[]
  /** The public call, for messages. */
  name: string
  /** Its arguments, of which `required` must be given. */
  args: Args
  required: readonly Required[]
  options: Options
  /** Its arguments and its options. */
  takes: Args & Options
}

type Nothing = Record<never, never>

/** What a call has besides its route and its reply. */
interface Declaration<Args, Options, Required> extends Traits {
  waits?: true
  errors?: string[]
  name?: string
  args?: Args
  required?: readonly Required[]
  options?: Options
}

export function simple<
  T,
  const Path extends string,
  Args extends CallTable = Nothing,
  Options extends CallTable = Nothing,
  Required extends keyof Args & string = never,
>(
  method: Endpoint<T>['method'],
  path: Path,
  reply: Body<T>,
  declared: Declaration<Args, Options, Required>,
): SimpleCall<T, Path, Args, Options, Required> {
  const { args = {} as Args, options = {} as Options } = declared
  const usual = { waits: false, errors: [], name: path, required: [] }
  return { ...usual, ...declared, method, path, reply, args, options, takes: { ...args, ...options } }
}

/** Simple calls by the name of their method. */
export type SimpleCalls = Record<string, AnyCall>
export type AnyCall = Omit<SimpleCall<never, string, CallTable, CallTable, string>, 'reply'> & {
  reply: Pick<Body<never>, 'schema' | 'encode' | 'list'> & { decode: Body<unknown>['decode'] }
}

/** A checked call: the parameters of its path, its arguments, and each option as given or with its default. */
type Plan<Path, Args extends CallTable, Options extends CallTable, Required> = ParamsOf<Path> & {
  [K in keyof CompleteValues<Args>]: K extends Required
    ? Exclude<CompleteValues<Args>[K], undefined>
    : CompleteValues<Args>[K]
} & CompleteValues<Options>

type Method<Plan, T> = keyof Plan extends never ? () => Promise<T> : (plan: Plan) => Promise<T>

/** The methods of simple calls. The object that has them knows the parameters `Bound`. */
export type CallsOf<C, Bound extends string = never> = {
  [K in keyof C]: C[K] extends SimpleCall<
    infer T,
    infer Path,
    infer Args extends CallTable,
    infer Options extends CallTable,
    infer Required
  >
    ? Method<Omit<Plan<Path, Args, Options, Required>, Bound>, T>
    : never
}

/** The options of a call, checked. Throws OptionError. */
export function planOf<Options extends CallTable>(
  { name, options }: { name: string; options: Options },
  given: unknown,
): CompleteValues<Options> {
  return readWithDefaults(options, given, name)
}

/** Whether a call takes an AbortSignal. The signal of a kill is another option. */
export function takesSignal({ takes }: Pick<AnyCall, 'takes'>): boolean {
  return takes.signal !== undefined && takes.signal.json === undefined
}

/** A call with options, for the docs. */
export interface Call {
  /** As the docs show it. */
  name: string
  table: CallTable
  /** Where the JSON body with these options goes. */
  route?: string
  /** It is never sent. */
  local?: true
}
