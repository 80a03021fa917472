/** What of this package is in an app that only connects: the size that package.json limits is that of its bundle. */

import { connectAgent } from "../../dist/index.js";

globalThis.connectAgent = connectAgent;
