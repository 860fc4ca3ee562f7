/** The items of OpenAI's own tools, and the events of their streams, which pass in native mode. */

/** What the model did. */
export const OWN_CALLS: readonly string[] = [
  ...['web_search_call', 'file_search_call', 'code_interpreter_call', 'image_generation_call', 'computer_call'],
  ...['local_shell_call', 'shell_call', 'apply_patch_call', 'tool_search_call', 'mcp_list_tools', 'mcp_call'],
  'mcp_approval_request',
]

/** What its caller answers. */
export const OWN_RESULTS: readonly string[] = [
  ...['computer_call_output', 'local_shell_call_output', 'shell_call_output', 'apply_patch_call_output'],
  ...['tool_search_output', 'mcp_approval_response'],
]

const of = (item: string, ...ends: readonly string[]) => ends.map((end) => `response.${item}.${end}`)

export const OWN_EVENTS: readonly string[] = [
  ...of('web_search_call', 'in_progress', 'searching', 'completed'),
  ...of('file_search_call', 'in_progress', 'searching', 'completed'),
  ...of('code_interpreter_call', 'in_progress', 'interpreting', 'completed'),
  ...of('code_interpreter_call_code', 'delta', 'done'),
  ...of('image_generation_call', 'in_progress', 'generating', 'partial_image', 'completed'),
  ...of('mcp_call', 'in_progress', 'completed', 'failed'),
  ...of('mcp_call_arguments', 'delta', 'done'),
  ...of('mcp_list_tools', 'in_progress', 'completed', 'failed'),
]
