// What Restate calls: a handler that answers at once, and a loop of durable effects.
// Its SDK is looked for in the folder this is started in.
"use strict";

// Node 20 has no such thing, and the SDK wants it.
Promise.withResolvers ??= function () {
  const made = {};
  made.promise = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const { createRequire } = require("node:module");
const restate = createRequire(`${process.cwd()}/`)("@restatedev/restate-sdk");

const tiny = restate.service({
  name: "tiny",
  handlers: {
    say: async () => "hello",
    loop: async (context, turns) => {
      let last = 0;
      for (let turn = 0; turn < turns; turn += 1) {
        last = await context.run(async () => turn);
      }
      return last;
    },
  },
});

restate.serve({ services: [tiny], port: Number(process.argv[2]) });
