/** Recognises the configuration of another gateway: hundreds of unknown keys would not explain what is wrong. */

import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'

interface OtherGateway {
  readonly name: string
  /** A key of its files that weir's do not have, if the file is one of them. */
  readonly key: (file: JsonObject) => string | undefined
  /** What to do; absent: to write the file anew. */
  readonly advice?: string
}

const WRITE = 'weir import has no reader for it; write a weir.yaml as weir.example.yaml shows'

/** The first of these keys that the file has. */
const oneOf =
  (...keys: readonly string[]) =>
  (file: JsonObject) =>
    keys.find((key) => Object.hasOwn(file, key))

const gateways: readonly OtherGateway[] = [
  {
    name: 'the LiteLLM proxy',
    key: oneOf('model_list', 'litellm_settings', 'router_settings'),
    advice: 'make a weir.yaml of it: weir import litellm FILE > weir.yaml',
  },
  {
    name: 'Portkey',
    key: (file) =>
      oneOf('strategy', 'virtual_key', 'override_params')(file) ??
      (isArray(file['targets']) && !Object.hasOwn(file, 'models') ? 'targets' : undefined),
  },
  { name: 'Kong', key: oneOf('_format_version') },
  {
    name: 'Bifrost',
    key: (file) => (isObject(file['providers']) ? oneOf('config_store', 'client', 'vector_store')(file) : undefined),
  },
  {
    name: 'Envoy AI Gateway or another Kubernetes resource',
    key: (file) => (Object.hasOwn(file, 'kind') ? oneOf('apiVersion')(file) : undefined),
  },
  {
    name: 'Helicone AI Gateway',
    key: (file) => (Object.hasOwn(file, 'models') ? undefined : oneOf('routers', 'helicone')(file)),
  },
]

/** The key that betrays another gateway's file, and the problem; undefined for all other files. */
export function otherGateway(file: JsonValue): { readonly key: string; readonly message: string } | undefined {
  // A file that has these is weir's, whatever else is in it.
  if (!isObject(file) || (Object.hasOwn(file, 'organizations') && Object.hasOwn(file, 'models'))) return undefined
  for (const { name, key, advice = WRITE } of gateways) {
    const found = key(file)
    if (found !== undefined)
      return { key: found, message: `this is a configuration of ${name}, not of weir; ${advice}` }
  }
  return undefined
}
