// Handlers for Restate: one that replies immediately, and a loop of durable effects.
// The SDK is loaded from the working directory.
"use strict";

// Node 20 lacks this function, which the SDK needs.
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
    loop: async (context, iterations) => {
      let last = 0;
      for (let iteration = 0; iteration < iterations; iteration += 1) {
        last = await context.run(async () => iteration);
      }
      return last;
    },
  },
});

restate.serve({ services: [tiny], port: Number(process.argv[2]) });
