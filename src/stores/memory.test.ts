import { storeContract } from '../../test/support/store-contract.ts';
import { openMemoryStore } from './memory.ts';

storeContract('memory', {
  place: () => ({ open: async () => openMemoryStore(), dispose: () => {} }),
  keeps: false,
});
