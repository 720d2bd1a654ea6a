// React's JSX runtime with one addition: a text that reaches the page has its unseen characters written out.
// It stands here, once, because any text from a server may end up in any element. See `jsxImportSource` in vite.config.ts.
import { jsx as create, jsxs as createMany, Fragment } from 'react/jsx-runtime';
import { shown } from './shown';

type Create = typeof create;

function visible(child: unknown): unknown {
  return typeof child === 'string' ? shown(child) : child;
}

function guarded(make: Create): Create {
  return (type, props, key) => {
    const children = (props as { children?: unknown } | null)?.children;
    if (children === undefined) return make(type, props, key);
    const safe = Array.isArray(children) ? children.map(visible) : visible(children);
    return make(type, { ...(props as object), children: safe }, key);
  };
}

export const jsx = guarded(create);
export const jsxs = guarded(createMany);
export { Fragment };
