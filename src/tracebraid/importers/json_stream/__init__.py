"""The bytes of a JSON trace: unpacked, cut into chunks of whole objects, recovered where they are damaged."""
