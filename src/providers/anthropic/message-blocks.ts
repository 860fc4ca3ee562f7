/** The blocks of Anthropic's Messages API: texts, images, calls and their results, and tools. */

import type { CacheMark, ImagePart, TextPart, Tool } from '../../core/chat-request.ts'
import type { JsonObject } from '../../core/json.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import type { CacheMarks } from '../cache-marks.ts'
import { CallInputs } from '../call-arguments.ts'
import { mediaType } from '../media-type.ts'
import type { ToolNames } from '../tool-names.ts'
import type { BlockWriter } from '../turn-writer.ts'
import { type EarlierCall, solid, type ToolResult } from '../turns.ts'

/** One per request: marks are counted over all of it. */
export class Blocks implements BlockWriter {
  private readonly inputs: CallInputs

  constructor(
    private readonly names: ToolNames,
    private readonly marks: CacheMarks,
    longTexts: LongTexts | undefined,
  ) {
    this.inputs = new CallInputs(longTexts)
  }

  part(part: TextPart | ImagePart): readonly JsonObject[] {
    return [part.type === 'text' ? textBlock(part, this.marks) : imageBlock(part, this.marks)]
  }

  call(call: EarlierCall, id: string): readonly JsonObject[] {
    const mark = cacheControl(this.marks.next(call.cache))
    return [
      {
        type: 'tool_use',
        id,
        name: this.names.sent(call.name),
        input: this.inputs.of(call.json),
        cache_control: mark,
      },
    ]
  }

  /**
   * One text without a mark is sent as a string, which every compatible server accepts; an empty result has no content.
   */
  result(result: ToolResult, id: string): readonly JsonObject[] {
    const parts = solid(result.parts)
    const [only] = parts
    const plain = parts.length === 1 && only?.cache === undefined ? only?.text : undefined
    const block = {
      type: 'tool_result',
      tool_use_id: id,
      content: parts.length === 0 ? undefined : (plain ?? parts.map((part) => textBlock(part, this.marks))),
      is_error: result.isError === true ? true : undefined,
      cache_control: cacheControl(this.marks.next(result.cache)),
    }
    return [block]
  }
}

export function textBlock(part: TextPart, marks: CacheMarks): JsonObject {
  return { type: 'text', text: part.text, cache_control: cacheControl(marks.next(part.cache)) }
}

function imageBlock(part: ImagePart, marks: CacheMarks): JsonObject {
  const { source } = part
  return {
    type: 'image',
    source:
      source.type === 'url'
        ? { type: 'url', url: source.url }
        : { type: 'base64', media_type: mediaType(source.mediaType), data: source.data },
    cache_control: cacheControl(marks.next(part.cache)),
  }
}

function cacheControl(mark: CacheMark | undefined): JsonObject | undefined {
  return mark === undefined ? undefined : { type: 'ephemeral', ttl: mark.ttl }
}

export function toolBlock(tool: Tool, structured: boolean, names: ToolNames, marks: CacheMarks): JsonObject {
  const { parameters } = tool
  return {
    name: names.sent(tool.name),
    description: tool.description,
    input_schema: parameters['type'] === 'object' ? parameters : { ...parameters, type: 'object' },
    strict: structured ? tool.strict : undefined,
    cache_control: cacheControl(marks.next(tool.cache)),
  }
}
