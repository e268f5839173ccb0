return {0}
