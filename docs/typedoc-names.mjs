// Names the modules of the reference as an app imports them: `mcp-holdfast/gates`, not `gates`.
import { Converter } from 'typedoc';

/** @param {import('typedoc').Application} app */
export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, (context) => {
    for (const module of context.project.children ?? []) {
      module.name = module.name === 'index' ? 'mcp-holdfast' : `mcp-holdfast/${module.name}`;
    }
  });
}
